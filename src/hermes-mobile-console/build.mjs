// Builds what the Python package serves. `--check` compares instead of writing: CI proves with it
// that the committed files are what these sources make.

import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const output = join(here, '../hermes_mobile/http/static');

const PAGES = ['index.html', 'icon.svg', 'avatar/index.html'];
const BUNDLES = {
  'console.js': 'src/main.ts',
  'console.css': 'pages/console.css',
  'avatar/avatar.js': 'src/avatar/avatar.ts',
  'avatar/avatar.css': 'pages/avatar/avatar.css',
};

/** Everything served, by its path below the output folder. */
async function made() {
  const files = new Map();
  for (const page of PAGES) {
    files.set(page, await readFile(join(here, 'pages', page)));
  }
  for (const [name, entry] of Object.entries(BUNDLES)) {
    const { outputFiles } = await build({
      absWorkingDir: here,
      entryPoints: [entry],
      bundle: true,
      write: false,
      format: 'iife',
      target: 'es2022',
      charset: 'utf8',
      // Not minified: what runs on the page that holds the token can be read, and reviewed.
      minify: false,
      logLevel: 'warning',
    });
    files.set(name, outputFiles[0].contents);
  }
  return files;
}

async function write(files) {
  await rm(output, { recursive: true, force: true });
  for (const [name, contents] of files) {
    await mkdir(dirname(join(output, name)), { recursive: true });
    await writeFile(join(output, name), contents);
  }
}

/** The names of the files that are not as built: changed, missing, or not built at all. */
async function differing(files) {
  const found = await readdir(output, { recursive: true, withFileTypes: true }).catch(() => []);
  const names = found
    .filter((entry) => entry.isFile())
    .map((entry) => relative(output, join(entry.parentPath, entry.name)))
    .filter((name) => !files.has(name));
  for (const [name, contents] of files) {
    const committed = await readFile(join(output, name)).catch(() => null);
    if (committed === null || !committed.equals(contents)) names.push(name);
  }
  return names;
}

const files = await made();
if (process.argv.includes('--check')) {
  const names = await differing(files);
  if (names.length > 0) {
    console.error(`not as built from the sources: ${names.join(', ')} (run: npm run build)`);
    process.exitCode = 1;
  }
} else {
  await write(files);
}
