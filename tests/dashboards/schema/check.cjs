// Writes each dashboard as TypeScript of Grafana's types: an unknown field or value is an error of the compiler. Fields may be left out, since Grafana has defaults.
// Arguments: the package of the types, and the dashboards' files.

const fs = require("fs");
const [schema, ...files] = process.argv.slice(2);

const PANELS = { heatmap: "Heatmap", "state-timeline": "StateTimeline", stat: "Stat", table: "Table", text: "Text", timeseries: "TimeSeries" };
const WITH_CUSTOM = ["heatmap", "state-timeline", "table", "timeseries"];
// What @grafana/data has and the schema leaves out: the data source's part of an annotation, and the text of a variable's query.
const ELSEWHERE = ["expr", "step", "titleFormat", "textFormat", "tagKeys", "useValueForTime", "definition"];
const without = (one) => Object.fromEntries(Object.entries(one).filter(([field]) => !ELSEWHERE.includes(field)));
const literal = (value) => JSON.stringify(value, null, 1);
const lines = [
  `import type { Dashboard, FieldConfig, FieldConfigSource, Panel, RowPanel } from "${schema}";`,
  ...Object.entries(PANELS).map(([type, name]) => `import type * as ${name} from "${schema}/dist/esm/raw/composable/${type.replace("-", "")}/panelcfg/x/${name}PanelCfg_types.gen";`),
  // Strings in the place of their enumerations.
  "type Json<T> = T extends string ? `${T}` : T extends (infer One)[] ? Json<One>[] : T extends object ? { [K in keyof T]?: Json<T[K]> | null } : T;",
];
function panel(one) {
  const name = PANELS[one.type];
  if (!name) throw new Error(`panels of the kind ${one.type} are not checked: add it to PANELS`);
  const { options, fieldConfig, ...rest } = one;
  const { custom, ...defaults } = fieldConfig?.defaults ?? {};
  lines.push(`(${literal(rest)}) satisfies Json<Panel>;`);
  lines.push(`(${literal(options ?? {})}) satisfies Json<${name}.Options>;`);
  lines.push(`(${literal({ ...fieldConfig, defaults })}) satisfies Json<FieldConfigSource>;`);
  for (const { id, value } of (fieldConfig?.overrides ?? []).flatMap(({ properties }) => properties)) {
    const [first, ...rest] = id.split(".");
    const [field, type] = first === "custom" ? [rest, `${name}.FieldConfig`] : [[id], "FieldConfig"];
    lines.push(`(${literal(field.reduceRight((inner, part) => ({ [part]: inner }), value))}) satisfies Json<${type}>;`);
  }
  if (custom) lines.push(WITH_CUSTOM.includes(one.type) ? `(${literal(custom)}) satisfies Json<${name}.FieldConfig>;` : `(${literal(custom)}) satisfies Record<string, never>;`);
}
for (const file of files) {
  const { panels, ...dashboard } = JSON.parse(fs.readFileSync(file, "utf8"));
  dashboard.annotations.list = dashboard.annotations.list.map(without);
  dashboard.templating.list = dashboard.templating.list.map(without);
  lines.push(`(${literal(dashboard)}) satisfies Json<Dashboard>;`);
  for (const one of panels) {
    if (one.type !== "row") { panel(one); continue; }
    const { panels: inner, ...row } = one;
    lines.push(`(${literal(row)}) satisfies Json<RowPanel>;`);
    inner.forEach(panel);
  }
}
process.stdout.write(lines.join("\n"));
