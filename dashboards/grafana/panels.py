"""Grafana's dashboard format: panels, targets, variables. What is shown is in generate.py."""

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24


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
    """A query over the time range."""
    return {"expr": expr, "legendFormat": legend, "range": True, "instant": False}


def query(expr, name=None):
    """A query for the present, for tables."""
    return {"expr": expr, "legendFormat": name or "", "range": False, "instant": True, "format": "table", "name": name}


def _panel(kind, title, description, targets, unit, options, custom=None, defaults=None, overrides=()):
    named = []
    for place, one in enumerate(targets):
        one = {key: value for key, value in one.items() if key != "name"}
        named.append({"refId": chr(ord("A") + place), "datasource": SOURCE, **one})
    return {
        "type": kind, "title": title, "description": description, "datasource": SOURCE, "targets": named, "options": options,
        "fieldConfig": {"defaults": {"unit": unit, "custom": custom or {}, **(defaults or {})}, "overrides": list(overrides)},
    }


def _override(name, properties):
    return {"matcher": {"id": "byName", "options": name},
            "properties": [{"id": key, "value": value} for key, value in properties.items()]}


def timeseries(title, description, unit, targets, stack=False, limits=None, styles=()):
    """Lines. `styles`: for a legend, its colour, fill, dashed, and whether it goes below the axis."""
    overrides = []
    for legend, style in styles:
        properties = {}
        if "colour" in style:
            properties["color"] = {"mode": "fixed", "fixedColor": style["colour"]}
        if style.get("fill"):
            properties["custom.fillOpacity"] = style["fill"]
        if style.get("dashed"):
            properties["custom.lineStyle"] = {"fill": "dash", "dash": [6, 6]}
        if style.get("below"):
            properties["custom.transform"] = "negative-Y"
        overrides.append(_override(legend, properties))
    custom = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 0, "showPoints": "never", "spanNulls": False,
              "stacking": {"mode": "normal" if stack else "none", "group": "A"}}
    defaults = dict(zip(("min", "max"), limits)) if limits else {}
    options = {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
               "tooltip": {"mode": "multi", "sort": "none"}}
    return _panel("timeseries", title, description, targets, unit, options, custom, defaults, overrides)


def timeline(title, description, expr, names, legend):
    """A strip of states. The mapping's colours hold only with this colour mode."""
    mapping = {str(number): {"text": name, "color": colour, "index": number} for number, (name, colour) in names.items()}
    mapping["0"] = {"text": "unknown", "color": "transparent", "index": 0}
    defaults = {"color": {"mode": "palette-classic"}, "mappings": [{"type": "value", "options": mapping}]}
    options = {"mergeValues": True, "showValue": "auto", "alignValue": "center", "rowHeight": 0.9,
               "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False}, "tooltip": {"mode": "single", "sort": "none"}}
    legend = legend if "{{" in legend else "{{%s}}" % legend
    return _panel("state-timeline", title, description, [target(expr, legend)], "none", options, {"fillOpacity": 90, "lineWidth": 0}, defaults)


def heatmap(title, description, expr, unit):
    """Classic histogram buckets over time."""
    one = {**target(expr, "{{le}}"), "format": "heatmap"}
    options = {"calculate": False, "cellGap": 1, "cellValues": {"unit": "short"}, "yAxis": {"unit": unit, "axisPlacement": "left"},
               "rowsFrame": {"layout": "auto"}, "color": {"mode": "scheme", "scheme": "Viridis", "exponent": 0.5, "steps": 64, "reverse": False},
               "filterValues": {"le": 1e-9}, "legend": {"show": False}, "tooltip": {"mode": "single", "yHistogram": False, "showColorScale": False}}
    return _panel("heatmap", title, description, [one], unit, options)


def stat(title, description, unit, targets):
    """Newest values."""
    options = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "colorMode": "none", "graphMode": "area",
               "textMode": "auto", "justifyMode": "auto", "orientation": "auto"}
    return _panel("stat", title, description, targets, unit, options)


def table(title, description, queries, keep, sort=None, units=None, drill_down=None):
    """One line for each label set; several queries are joined by their labels."""
    names = {f"Value #{chr(ord('A') + place)}": one["name"] for place, one in enumerate(queries) if one.get("name")}
    transformations = [{"id": "merge", "options": {}}] if len(queries) > 1 else []
    columns = keep + [one["name"] for one in queries if one.get("name")]
    wanted = keep + list(names)
    transformations.append({"id": "filterFieldsByName", "options": {"include": {"names": wanted}}})
    transformations.append({"id": "organize", "options": {"renameByName": names, "excludeByName": {},
                                                          "indexByName": {name: place for place, name in enumerate(wanted)}}})
    overrides = [_override(name, {"unit": unit}) for name, unit in (units or {}).items()]
    if drill_down:
        links = [{"title": "Look into this link", "url": drill_down, "targetBlank": False}]
        overrides += [_override(name, {"links": links}) for name in keep]
    options = {"showHeader": True, "cellHeight": "sm", "footer": {"show": False, "reducer": ["sum"], "countRows": False},
               "sortBy": [{"displayName": sort, "desc": True}] if sort else []}
    assert set(units or {}) <= set(columns)
    return {**_panel("table", title, description, queries, "none", options, {"align": "auto"}, None, overrides), "transformations": transformations}


def variable(name, label, definition, multi=False, all_of=False):
    """A choice among label values."""
    return {"type": "query", "name": name, "label": label, "datasource": SOURCE, "definition": definition,
            "query": {"query": definition, "refId": f"Variable-{name}"}, "refresh": 2, "sort": 1, "hide": 0, "multi": multi,
            "includeAll": all_of, "allValue": ".*" if all_of else None, "skipUrlSync": False, "regex": "", "options": [],
            "current": {"selected": True, "text": "All", "value": "$__all"} if all_of else {}}


def dashboard(uid, title, description, grid, variables, annotations, refresh, since, other):
    """The whole file."""
    source = {"type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus", "hide": 0, "refresh": 1, "regex": "",
              "multi": False, "includeAll": False, "skipUrlSync": False, "options": [], "current": {}}
    marks = [{"name": name, "enable": enabled, "hide": False, "iconColor": colour, "datasource": SOURCE, "expr": expr, "step": "10s",
              "titleFormat": words, "textFormat": text, "useValueForTime": False}
             for name, enabled, expr, words, text, colour in annotations]
    return {
        "id": None, "uid": uid, "title": title, "description": description, "tags": ["pendulum"], "schemaVersion": 39, "version": 1,
        "editable": True, "graphTooltip": 1, "refresh": refresh, "time": {"from": since, "to": "now"}, "timezone": "", "weekStart": "",
        "timepicker": {}, "fiscalYearStartMonth": 0, "liveNow": False,
        "annotations": {"list": marks}, "templating": {"list": [source, *variables]},
        "links": [{"type": "link", "title": other[0], "url": f"/d/{other[1]}", "icon": "dashboard", "keepTime": True, "includeVars": False,
                   "targetBlank": False, "asDropdown": False, "tags": [], "tooltip": ""}],
        "panels": grid.panels,
    }
