"""Grafana's dashboard format: panels, targets, variables. The panels are in link.py and fleet.py."""

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24
#: No judgement: the panel's own ground, which Grafana writes on in its text colour.
PLAIN = "transparent"
#: An empty cell.
EMPTY = "–"


class Grid:
    """Panels from left to right and from top to bottom, in rows with a title."""

    def __init__(self):
        self.panels, self._x, self._y, self._height, self._row, self._id = [], 0, 0, 0, None, 0

    def _number(self, panel):
        self._id += 1
        return {"id": self._id, **panel}

    def row(self, title, collapsed=False):
        self._y += self._height
        self._x = self._height = 0
        row = {"type": "row", "title": title, "collapsed": collapsed, "panels": [],
               "gridPos": {"x": 0, "y": self._y, "w": WIDTH, "h": 1}}
        row = self._number(row)
        self.panels.append(row)
        self._row = row if collapsed else None
        self._y += 1

    def add(self, width, height, panel):
        if self._x + width > WIDTH:
            self._x, self._y, self._height = 0, self._y + self._height, 0
        panel = self._number({**panel, "gridPos": {"x": self._x, "y": self._y, "w": width, "h": height}})
        (self.panels if self._row is None else self._row["panels"]).append(panel)
        self._x += width
        self._height = max(self._height, height)


def target(expr, legend):
    """A query over the time range, for graphs."""
    return {"expr": expr, "legendFormat": legend, "range": True, "instant": False}


def now(expr, legend):
    """A query for the end of the time range, for statements about the present: a series that has ended gives nothing."""
    return {"expr": expr, "legendFormat": legend, "range": False, "instant": True}


def query(expr, name=None):
    """The same, for tables."""
    return {**now(expr, name or ""), "format": "table", "name": name}


def _panel(kind, title, description, targets, unit, options, custom=None, defaults=None, overrides=()):
    named = []
    for place, one in enumerate(targets):
        one = {key: value for key, value in one.items() if key != "name"}
        named.append({"refId": chr(ord("A") + place), "datasource": SOURCE, **one})
    return {
        "type": kind, "title": title, "description": description, "datasource": SOURCE, "targets": named, "options": options,
        "fieldConfig": {"defaults": {"unit": unit, "custom": custom or {}, "thresholds": thresholds(), **(defaults or {})},
                        "overrides": list(overrides)},
    }


def thresholds(*steps):
    """Grounds from a value on. Without any there is no judgement: Grafana would paint values above 80 red."""
    return {"mode": "absolute", "steps": [{"color": PLAIN, "value": None}, *({"color": colour, "value": value} for value, colour in steps)]}


def _override(name, properties):
    """For a field of this name, or of all that match `/…/`."""
    matcher = "byRegexp" if name.startswith("/") else "byName"
    return {"matcher": {"id": matcher, "options": name},
            "properties": [{"id": key, "value": value} for key, value in properties.items()]}


def _mappings(names, nothing=None):
    """Values to words and grounds (None: none); `nothing`: the word for a gap."""
    options = {str(value): {"text": text, "index": place, **({"color": colour} if colour else {})}
               for place, (value, (text, colour)) in enumerate(names.items())}
    mappings = [{"type": "value", "options": options}]
    if nothing:
        mappings.append({"type": "special", "options": {"match": "null+nan", "result": {"text": nothing, "color": PLAIN, "index": len(options)}}})
    return mappings


def timeseries(title, description, unit, targets, stack=False, limits=None, soft=None, styles=(), nothing="nothing in this time"):
    """Lines; `nothing` is shown where there are none. `styles`: for a legend, its name, colour, fill, dashed, whether it goes below the axis, and down to which legend its band goes."""
    overrides = []
    for legend, style in styles:
        properties = {}
        if "name" in style:
            properties["displayName"] = style["name"]
        if "colour" in style:
            properties["color"] = {"mode": "fixed", "fixedColor": style["colour"]}
        if style.get("fill"):
            properties["custom.fillOpacity"] = style["fill"]
        if style.get("dashed"):
            properties["custom.lineStyle"] = {"fill": "dash", "dash": [6, 6]}
        if "band" in style:
            properties["custom.lineWidth"] = 0
        if style.get("band"):
            properties["custom.fillBelowTo"] = style["band"]
            properties["custom.fillOpacity"] = 25
        if style.get("below"):
            properties["custom.transform"] = "negative-Y"
        overrides.append(_override(legend, properties))
    custom = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 0, "showPoints": "never", "spanNulls": False,
              "stacking": {"mode": "normal" if stack else "none", "group": "A"}}
    if soft:
        custom |= {"axisSoftMin": soft[0], "axisSoftMax": soft[1]}
    # By name: a gateway has one colour in every panel.
    defaults = {"color": {"mode": "palette-classic-by-name"}, "noValue": nothing, **(dict(zip(("min", "max"), limits)) if limits else {})}
    options = {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
               "tooltip": {"mode": "multi", "sort": "none"}}
    return _panel("timeseries", title, description, targets, unit, options, custom, defaults, overrides)


def timeline(title, description, expr, names, legend, nothing="not known"):
    """A strip of states; `nothing` is the name of 0 and of a gap. The mapping's colours hold only with this colour mode. Without a single
    series Grafana says "Data does not have a time field": the query has to give one."""
    mappings = _mappings({0: (nothing, PLAIN), **names}, nothing)
    defaults = {"color": {"mode": "palette-classic"}, "mappings": mappings, "noValue": nothing}
    options = {"mergeValues": True, "showValue": "auto", "alignValue": "center", "rowHeight": 0.9,
               "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}, "tooltip": {"mode": "single", "sort": "none"}}
    legend = legend if "{{" in legend else "{{%s}}" % legend
    return _panel("state-timeline", title, description, [target(expr, legend)], "none", options, {"fillOpacity": 100, "lineWidth": 0}, defaults)


def heatmap(title, description, expr, unit):
    """A histogram's buckets over time, classic or native."""
    one = {**target(expr, "{{le}}"), "format": "heatmap"}
    options = {"calculate": False, "cellGap": 1, "cellValues": {"unit": "short"}, "yAxis": {"unit": unit, "axisPlacement": "left"},
               "rowsFrame": {"layout": "auto"}, "color": {"mode": "scheme", "scheme": "Viridis", "exponent": 0.5, "steps": 64, "reverse": False},
               "filterValues": {"le": 1e-9}, "legend": {"show": True}, "tooltip": {"mode": "single", "yHistogram": False, "showColorScale": True}}
    return _panel("heatmap", title, description, [one], unit, options, None, {"noValue": "nothing in this time"})


def stat(title, description, unit, targets, nothing, steps=(), names=None, size=None, name=True, links=(), alarms=None):
    """Values of the present; `nothing` is shown where there are none, `names` are words for numbers. Colours are grounds, on which Grafana chooses
    black or white text. `alarms`: for a legend, its ground from 1 on."""
    assert all(one["instant"] for one in targets), title
    options = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
               "colorMode": "background_solid", "graphMode": "none",
               "textMode": "value_and_name" if name else "value", "justifyMode": "center", "orientation": "auto", "wideLayout": True,
               "text": {"titleSize": 13, **({"valueSize": size} if size else {})}}
    defaults = {"thresholds": thresholds(*steps), "color": {"mode": "thresholds"}, "noValue": nothing}
    if names:
        defaults["mappings"] = _mappings(names)
    if links:
        defaults["links"] = [{"title": title, "url": url, "targetBlank": blank} for title, url, blank in links]
    overrides = [_override(legend, {"thresholds": thresholds((1, ground))}) for legend, ground in (alarms or {}).items()]
    return _panel("stat", title, description, targets, unit, options, None, defaults, overrides)


def text(title, description, content):
    """Markdown."""
    return {"type": "text", "title": title, "description": description, "datasource": None,
            "targets": [], "fieldConfig": {"defaults": {}, "overrides": []},
            "options": {"mode": "markdown", "content": content, "code": {"language": "plaintext", "showLineNumbers": False}}}


def table(title, description, queries, keep, nothing, lead=(), sort=(), units=None, names=None, widths=None, wrapped=(), links=None, titles=None):
    """One line for each label set; several queries are joined by their labels. The columns are `lead`, the labels `keep`, then the other queries.
    `names`: for a column, words and grounds for its values. `sort`: columns, with "-" from the largest down. `links`: for a column, title and address.
    `titles`: for a label, what stands above its column."""
    assert all(one["instant"] for one in queries), title
    fields = {f"Value #{chr(ord('A') + place)}": one["name"] for place, one in enumerate(queries) if one.get("name")}
    if len(queries) == 1 and queries[0].get("name"):
        fields = {"Value": queries[0]["name"]}
    columns = [*lead, *keep, *(name for name in fields.values() if name not in lead)]
    field_of = {name: field for field, name in fields.items()}
    wanted = [field_of.get(column, column) for column in columns]
    transformations = [{"id": "merge", "options": {}}] if len(queries) > 1 else []
    transformations.append({"id": "filterFieldsByName", "options": {"include": {"names": wanted}}})
    transformations.append({"id": "organize", "options": {"renameByName": fields, "excludeByName": {},
                                                          "indexByName": {name: place for place, name in enumerate(wanted)}}})
    # `noValue` of the panel is said of an empty table, and would be said of every empty cell; a label may be part of an address.
    nan = [{"type": "special", "options": {"match": "nan", "result": {"text": EMPTY, "index": 0}}}]
    overrides = [_override("/.*/", {"noValue": EMPTY, "mappings": nan}), *(_override(label, {"noValue": ""}) for label in keep)]
    overrides += [_override(name, {"unit": unit}) for name, unit in (units or {}).items()]
    overrides += [_override(name, {"mappings": _mappings(words)}) for name, words in (names or {}).items()]
    ground = {"custom.cellOptions": {"type": "color-background", "mode": "basic"}}
    overrides += [_override(name, ground) for name, words in (names or {}).items() if any(colour for _, colour in words.values())]
    overrides += [_override(name, {"custom.width": width}) for name, width in (widths or {}).items()]
    overrides += [_override(name, {"custom.wrapText": True}) for name in wrapped]
    overrides += [_override(name, {"links": [{"title": told, "url": url, "targetBlank": False}]}) for name, (told, url) in (links or {}).items()]
    overrides += [_override(name, {"displayName": told}) for name, told in (titles or {}).items() if name in columns]
    options = {"showHeader": True, "cellHeight": "sm",
               "sortBy": [{"displayName": column.removeprefix("-"), "desc": column.startswith("-")} for column in sort]}
    known = {*(units or {}), *(names or {}), *(widths or {}), *wrapped, *(links or {}), *(column.removeprefix("-") for column in sort)}
    assert known <= set(columns), (title, known - set(columns))
    panel = _panel("table", title, description, queries, "none", options, {"align": "auto"}, {"noValue": nothing}, overrides)
    return {**panel, "transformations": transformations}


def variable(name, label, definition, multi=False, all_of=False):
    """A choice among label values. All are those that are offered: `.*` would match foreign series."""
    return {"type": "query", "name": name, "label": label, "datasource": SOURCE, "definition": definition,
            "query": {"query": definition, "refId": f"Variable-{name}"}, "refresh": 2, "sort": 1, "hide": 0, "multi": multi,
            "includeAll": all_of, "allValue": None, "skipUrlSync": False, "regex": "", "options": [],
            "current": {"selected": True, "text": "All", "value": "$__all"} if all_of else {}}


def constant(name, label, value):
    """Text that is no choice: who installs the dashboard changes it."""
    return {"type": "constant", "name": name, "label": label, "query": value, "hide": 2, "skipUrlSync": True, "options": [], "current": {"text": value, "value": value}}


def dashboard(uid, title, description, grid, variables, annotations, refresh, since, links):
    """The whole file. `links`: title, address, whether it leaves Grafana."""
    source = {"type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus", "hide": 0, "refresh": 1, "regex": "",
              "multi": False, "includeAll": False, "skipUrlSync": False, "options": [], "current": {}}
    # On the strips of states: over a graph, an alert that holds tints all of it.
    strips = [panel["id"] for panel in grid.panels if panel["type"] == "state-timeline"]
    marks = [{"name": name, "enable": enabled, "hide": False, "iconColor": colour, "datasource": SOURCE, "expr": expr, "step": "10s",
              "filter": {"exclude": False, "ids": strips},
              "titleFormat": words, "textFormat": text, "useValueForTime": False}
             for name, enabled, expr, words, text, colour in annotations]
    return {
        "id": None, "uid": uid, "title": title, "description": description, "tags": ["pendulum"], "schemaVersion": 39, "version": 1,
        "editable": True, "graphTooltip": 1, "refresh": refresh, "time": {"from": since, "to": "now"}, "timezone": "", "weekStart": "",
        "timepicker": {}, "fiscalYearStartMonth": 0, "liveNow": False,
        "annotations": {"list": marks}, "templating": {"list": [source, *variables]},
        "links": [{"type": "link", "title": title, "url": url, "icon": "external link" if away else "dashboard", "keepTime": not away,
                   "includeVars": False, "targetBlank": away, "asDropdown": False, "tags": [], "tooltip": ""} for title, url, away in links],
        "panels": grid.panels,
    }
