// Builds the page into the directory named on the command line: page.js, page.css, index.html, icon.svg.
// The result depends on nothing but the sources and the versions in package-lock.json.
import { copyFileSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2];
if (!out) {
    console.error('build.mjs: no directory for the result; use: node build.mjs DIRECTORY');
    process.exit(64);
}

// uPlot's licence asks that its notice goes with every copy.
const licence = readFileSync(join(here, 'node_modules/uplot/LICENSE'), 'utf8').trim();
const notice = `/*!\nPendulum, MIT OR Apache-2.0. Contains uPlot:\n\n${licence}\n*/`;

await build({
    absWorkingDir: here,
    entryPoints: { page: 'src/main.ts' },
    outdir: out,
    bundle: true,
    minify: true,
    format: 'esm',
    target: ['chrome100', 'firefox100', 'safari15.4'],
    charset: 'utf8',
    legalComments: 'none',
    banner: { js: notice, css: notice },
    logLevel: 'warning',
});
mkdirSync(out, { recursive: true });
for (const file of ['index.html', 'icon.svg']) {
    copyFileSync(join(here, file), join(out, file));
}
