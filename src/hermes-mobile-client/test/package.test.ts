// The package as it is published, in the hands of those who install it.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { runInNewContext } from 'node:vm';

import { buildSync } from 'esbuild';

const ROOT = join(import.meta.dirname, '..');
const EXPORTS = [
  'HermesClient',
  'MEDIA_CHUNK_BYTES',
  'PROTOCOL_VERSION',
  'base64ToBytes',
  'bytesToBase64',
  'makeId',
];

const project = mkdtempSync(join(tmpdir(), 'hermes-mobile-client-'));
after(() => rmSync(project, { recursive: true }));

function npm(cwd: string, ...args: string[]): string {
  // Under `npm test`, the npm that runs it.
  const script = process.env['npm_execpath'];
  const [command, first] = script ? [process.execPath, [script]] : ['npm', []];
  return execFileSync(command, [...first, ...args], { cwd, encoding: 'utf8', stdio: 'pipe' });
}

function node(...args: string[]): string {
  return execFileSync(process.execPath, args, { cwd: project, encoding: 'utf8', stdio: 'pipe' });
}

// `npm test` has built dist already; building it here would pull it away under the other tests.
const [tarball] = JSON.parse(
  npm(ROOT, 'pack', '--json', '--ignore-scripts', '--pack-destination', project),
) as [{ filename: string; version: string; files: { path: string }[] }];
writeFileSync(join(project, 'package.json'), '{"private":true}');
npm(project, 'install', '--offline', '--no-audit', '--no-fund', join(project, tarball.filename));

describe('the tarball', () => {
  const paths = tarball.files.map(({ path }) => path);

  it('is version 1.0.1, of dist, README and LICENSE', () => {
    assert.equal(tarball.version, '1.0.1');
    const others = paths.filter((path) => !path.startsWith('dist/'));
    assert.deepEqual(others.sort(), ['LICENSE', 'README.md', 'package.json']);
  });

  it('has both formats, with types and source maps for each module', () => {
    for (const format of ['esm', 'cjs']) {
      const files = paths.filter((path) => path.startsWith(`dist/${format}/`));
      const modules = files.filter((path) => path.endsWith('.js'));
      assert.ok(modules.includes(`dist/${format}/hermesClient.js`));
      for (const module of modules) {
        assert.ok(files.includes(`${module}.map`), module);
        assert.ok(files.includes(module.replace(/js$/, 'd.ts')), module);
        const map = readFileSync(join(ROOT, `${module}.map`), 'utf8');
        assert.ok((JSON.parse(map) as { sourcesContent?: string[] }).sourcesContent?.[0], module);
      }
    }
  });

  it('depends on nothing, and its lock file names no host', () => {
    const manifest = readFileSync(join(ROOT, 'package.json'), 'utf8');
    assert.equal('dependencies' in (JSON.parse(manifest) as object), false);
    assert.doesNotMatch(
      readFileSync(join(ROOT, 'package-lock.json'), 'utf8'),
      /"resolved"|https?:\/\/(?!(opencollective|github)\.com)/,
    );
  });
});

describe('installed', () => {
  it('is imported', () => {
    const print = `
      import * as all from 'hermes-mobile-client';
      console.log(Object.keys(all).sort().join());
    `;
    assert.equal(node('--input-type=module', '-e', print).trim(), EXPORTS.join());
  });

  it('is required', () => {
    const print = `console.log(Object.keys(require('hermes-mobile-client')).sort().join())`;
    assert.equal(node('--input-type=commonjs', '-e', print).trim(), EXPORTS.join());
  });

  for (const [resolution, module] of [
    ['node16', 'node16'],
    ['bundler', 'esnext'],
  ]) {
    it(`is type-checked with moduleResolution ${resolution}, without the DOM's types`, () => {
      for (const name of ['usage.mts', 'usage.cts']) {
        copyFileSync(join(ROOT, 'test/consumer/usage.ts'), join(project, name));
      }
      const compilerOptions = {
        module,
        moduleResolution: resolution,
        target: 'es2022',
        lib: ['es2022'],
        types: [],
        strict: true,
        exactOptionalPropertyTypes: true,
        noUncheckedIndexedAccess: true,
        outDir: `out-${resolution}`,
      };
      const config = { compilerOptions, files: ['usage.mts', 'usage.cts'] };
      writeFileSync(join(project, 'tsconfig.json'), JSON.stringify(config));
      node(createRequire(import.meta.url).resolve('typescript/bin/tsc'));
    });
  }

  it('runs, in either format, what was compiled', () => {
    for (const name of ['usage.mjs', 'usage.cjs']) {
      const print = `import('./out-node16/${name}').then(({ run }) => console.log(run().length))`;
      assert.equal(node('-e', print).trim(), '9');
    }
  });
});

describe('bundled for a browser', () => {
  const { outputFiles, metafile } = buildSync({
    stdin: { contents: `export * from 'hermes-mobile-client'`, resolveDir: project },
    bundle: true,
    platform: 'browser',
    format: 'iife',
    globalName: 'hermes',
    metafile: true,
    write: false,
    logLevel: 'silent',
  });

  it('takes in this package and nothing else', () => {
    for (const input of Object.keys(metafile.inputs).filter((input) => input !== '<stdin>')) {
      assert.match(input, /hermes-mobile-client\/dist\/esm\/\w+\.js$/);
    }
    assert.deepEqual(
      Object.values(metafile.outputs).flatMap(({ imports }) => imports),
      [],
    );
  });

  it('loads where there is nothing but the language', () => {
    const code = outputFiles[0]?.text;
    const use = `
      const device = { id: 'app-1', name: '', platform: 'web', appVersion: '' };
      const client = new hermes.HermesClient({ url: 'ws://localhost/ws', token: '', device });
      let refusal = '';
      try {
        client.sendImage({ path: '/tmp/chart.png' });
      } catch (error) {
        refusal = error.message;
      }
      [client.sendImage('AQID').length > 0, refusal].join();
    `;
    assert.match(String(runInNewContext(`${code}\n${use}`)), /^true,source: .*Node/);
  });

  it('leaves out what a program does not use', () => {
    const small = buildSync({
      stdin: {
        contents: `import { makeId } from 'hermes-mobile-client'; console.log(makeId())`,
        resolveDir: project,
      },
      bundle: true,
      platform: 'browser',
      format: 'esm',
      write: false,
      minify: true,
    });
    assert.ok(small.outputFiles[0]!.text.length < 1000);
  });
});
