// Both module formats from one source: dist/esm and dist/cjs, each with its types.
import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
const here = import.meta.dirname;

rmSync(`${here}/dist`, { recursive: true, force: true });
for (const project of ['tsconfig.json', 'tsconfig.cjs.json']) {
  execFileSync(process.execPath, [tsc, '-p', `${here}/${project}`], { stdio: 'inherit' });
}
// The package is of type "module"; this marks the one folder that is not.
writeFileSync(`${here}/dist/cjs/package.json`, '{"type":"commonjs"}\n');
