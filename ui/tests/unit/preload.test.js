import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';

const root = new URL('../../', import.meta.url).pathname;

/** The modules that a module imports before it runs, and theirs. @param {string} path @param {Set<string>} [found] */
function imported(path, found = new Set()) {
  if (found.has(path)) return found;
  found.add(path);
  const text = readFileSync(join(root, path), 'utf8');
  for (const [, from] of text.matchAll(/^(?:import|export) (?:[^'"]*? from )?['"](\.[^'"]+)['"]/gms)) imported(normalize(join(dirname(path), from)), found);
  return found;
}

test('the page names every module that it begins with, so that no module waits for another', () => {
  const page = readFileSync(join(root, 'index.html'), 'utf8');
  const named = [...page.matchAll(/<link rel="modulepreload" href="ui\/([^"]+)">/g)].map(([, path]) => path);
  const needed = [...imported('src/main.js')].filter((path) => path !== 'src/main.js').sort();
  assert.deepEqual(named, needed, `index.html must have:\n${needed.map((path) => `  <link rel="modulepreload" href="ui/${path}">`).join('\n')}`);
});
