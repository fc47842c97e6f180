// What panels say of the results of their queries, by Grafana's own library: field overrides, value mappings, units, transformations.
// In: [{panel, results: {A: [{metric, value}]}}] of stats, tables and state timelines. Out: for each the texts, row by row; for a stat
// "name: text". Results are those of instant queries. One argument: where node_modules is.
"use strict";
// The library was written for browsers: it listens to a window while it is loaded, and has hooks for React that are not used here.
const Module = require("node:module");
const load = Module._load;
Module._load = (name, ...rest) => (name.startsWith("react-use") ? {} : load(name, ...rest));
const storage = { getItem: () => null, setItem() {}, removeItem() {} };
globalThis.window = Object.assign(globalThis, { addEventListener() {}, removeEventListener() {}, localStorage: storage, navigator: { language: "en-US", languages: ["en-US"] } });
const grafana = Module.createRequire(`${process.argv[2]}/package.json`)("@grafana/data");

const { FieldType } = grafana;
// Grafana 13 loads a transformation when it is asked for.
const isLazy = Number(require(`${process.argv[2]}/node_modules/@grafana/data/package.json`).version.split(".")[0]) >= 13;
const theme = grafana.createTheme({ colors: { mode: "dark" } });
const asText = (display) => grafana.formattedValueToString(display);
grafana.standardTransformersRegistry.setInit(() =>
  [...new Map(Object.values(grafana.standardTransformers).map((one) => [one.id, one])).values()].map((one) => ({ id: one.id, name: one.name, transformation: isLazy ? async () => one : one, editor: null })),
);
const property = (id, settings = {}) => ({ id, path: id, name: id, override: (value) => value, process: (value) => value, shouldApply: () => true, ...settings });
const standard = new grafana.Registry(() =>
  ["unit", "decimals", "min", "max", "displayName", "noValue", "links", "mappings", "thresholds", "color", "filterable"].map((id) => property(id)),
);
const custom = new grafana.FieldConfigOptionsRegistry(() =>
  ["width", "cellOptions", "lineWidth", "fillOpacity", "transform", "align"].map((id) => ({ ...property(id, { isCustom: true }), id: `custom.${id}` })),
);
grafana.standardFieldConfigEditorRegistry.setInit(() => standard.list());

// As the data source makes them: a series is a frame, a table has one column for each label.
const series = (target, results) =>
  (results ?? []).map(({ metric, value }) => ({
    refId: target.refId,
    length: 1,
    fields: [
      { name: "Time", type: FieldType.time, config: {}, values: [0] },
      {
        name: "Value", type: FieldType.number, labels: metric, values: [Number(value)],
        config: { displayNameFromDS: target.legendFormat.replace(/{{(\w+)}}/g, (_, label) => metric[label] ?? "") },
      },
    ],
  }));
const table = (target, results, several) => {
  const labels = [...new Set((results ?? []).flatMap(({ metric }) => Object.keys(metric)))].sort();
  const column = (name, type, values) => ({ name, type, config: {}, values });
  const rows = results ?? [];
  return {
    refId: target.refId,
    length: rows.length,
    fields: [
      column("Time", FieldType.time, rows.map(() => 0)),
      ...labels.map((label) => column(label, FieldType.string, rows.map(({ metric }) => metric[label] ?? ""))),
      column(several ? `Value #${target.refId}` : "Value", FieldType.number, rows.map(({ value }) => Number(value))),
    ],
  };
};
const overridden = (panel, data) =>
  grafana.applyFieldOverrides({
    data, theme, fieldConfig: panel.fieldConfig, replaceVariables: (text) => text, fieldConfigRegistry: new grafana.FieldConfigOptionsRegistry(() => [...standard.list(), ...custom.list()]), timeZone: "utc",
  });

async function render({ panel, results }) {
  if (panel.type === "table") {
    const frames = panel.targets.map((one) => table(one, results[one.refId], panel.targets.length > 1)).filter((frame) => frame.length);
    if (!frames.length) return [[panel.fieldConfig.defaults.noValue]];
    const transformed = await new Promise((resolve, reject) => grafana.transformDataFrame(panel.transformations ?? [], frames).subscribe({ next: resolve, error: reject }));
    const [frame] = overridden(panel, transformed);
    const title = (field) => grafana.getFieldDisplayName(field, frame);
    const order = Array.from({ length: frame.length }, (_, row) => row);
    for (const { displayName, desc } of [...panel.options.sortBy].reverse()) {
      const field = frame.fields.find((one) => title(one) === displayName);
      if (field) order.sort((a, b) => ((field.values[a] ?? -Infinity) - (field.values[b] ?? -Infinity)) * (desc ? -1 : 1));
    }
    return [frame.fields.map(title), ...order.map((row) => frame.fields.map((field) => asText(field.display(field.values[row]))))];
  }
  const frames = panel.targets.flatMap((one) => series(one, results[one.refId]));
  if (panel.type === "state-timeline") {
    if (!frames.length) return [["Data does not have a time field"]];
    return overridden(panel, frames).map((frame) => [grafana.getFieldDisplayName(frame.fields[1], frame), asText(frame.fields[1].display(frame.fields[1].values[0]))]);
  }
  const shown = grafana.getFieldDisplayValues({
    fieldConfig: panel.fieldConfig, reduceOptions: panel.options.reduceOptions, replaceVariables: (text) => text, theme, data: overridden(panel, frames), timeZone: "utc",
  });
  const named = panel.options.textMode === "value_and_name" && shown.length && frames.length;
  return shown.map(({ display }) => [...(named ? [display.title] : []), asText(display)]);
}

let input = "";
process.stdin.on("data", (piece) => (input += piece));
process.stdin.on("end", async () => {
  const texts = [];
  for (const one of JSON.parse(input)) texts.push(await render(one));
  // Libraries may have printed something.
  process.stdout.write(`\n${JSON.stringify(texts)}\n`);
});
