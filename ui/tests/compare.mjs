// Measures the page's own Markdown parser and pattern matcher beside maintained libraries and the browser's engine: bytes, speed, worst cases. Prints the
// table of ARCHITECTURE.md. The libraries are not dependencies of the page: install them anywhere and name the directory.
//
//   npm install --prefix DIR marked markdown-it micromark dompurify re2js esbuild-wasm && node ui/tests/compare.mjs DIR

import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { join, resolve } from 'node:path';
import { parse } from '../src/model/markdown.js';
import { matches } from '../src/model/pattern.js';

const directory = resolve(process.argv[2] ?? '.');
const require = createRequire(join(directory, 'index.js'));
const load = async (/** @type {string} */ name) => import(pathToFileURL(require.resolve(name)).href);
/** Longer than this is not waited for, in milliseconds. */
const GIVE_UP = 10_000;

/** Of a module and all that it imports, minified. @param {string} entry @returns {string} */
function bytes(entry) {
  const built = execFileSync(process.execPath, [require.resolve('esbuild-wasm/bin/esbuild'), '--bundle', '--minify', '--format=esm', entry], { cwd: directory, maxBuffer: 1 << 26 });
  return `${gzipSync(built, { level: 9 }).length}`;
}

/** @param {() => unknown} run @returns {number} milliseconds */
function time(run) {
  const begin = performance.now();
  run();
  return performance.now() - begin;
}

/** The median of some runs, after some that are not counted. @param {() => unknown} run */
function median(run) {
  for (let at = 0; at < 50; at += 1) run();
  const times = Array.from({ length: 50 }, () => time(run)).sort((a, b) => a - b);
  return times[25];
}

/** The longest of several hostile texts, in a process of its own that is ended when it takes too long. @param {string} name @param {string[]} texts */
function worst(name, texts) {
  const longest = texts.map((text) => {
    try {
      const run = [fileURLToPath(import.meta.url), directory, name];
      return Number(execFileSync(process.execPath, run, { input: text, timeout: GIVE_UP, encoding: 'utf8', stdio: ['pipe', 'pipe', 'ignore'] }));
    } catch (error) {
      return /** @type {any} */ (error).code === 'ETIMEDOUT' ? Infinity : NaN;
    }
  });
  const failed = longest.filter(Number.isNaN).length;
  const most = Math.max(...longest.filter((each) => !Number.isNaN(each)));
  return `${most === Infinity ? `more than ${GIVE_UP}` : most.toFixed(0)}${failed > 0 ? `; ${failed} overflow the stack` : ''}`;
}

const parsers = {
  ours: async () => parse,
  marked: async () => (await load('marked')).marked.parse,
  'markdown-it': async () => { const it = (await load('markdown-it')).default({ linkify: false }); return (/** @type {string} */ text) => it.render(text); },
  micromark: async () => (await load('micromark')).micromark,
};
const matchers = {
  ours: async () => (/** @type {string} */ pattern, /** @type {string} */ text) => matches(pattern, text),
  'RegExp of V8': async () => (/** @type {string} */ pattern, /** @type {string} */ text) => new RegExp(pattern, 'u').test(text),
  re2js: async () => { const { RE2JS } = await load('re2js'); return (/** @type {string} */ pattern, /** @type {string} */ text) => RE2JS.compile(pattern).matcher(text).find(); },
};

const [, , , child] = process.argv;
if (child !== undefined) {
  const { readFileSync } = await import('node:fs');
  const input = readFileSync(0, 'utf8');
  const [sort, name] = child.split(':');
  if (sort === 'markdown') {
    const run = await parsers[/** @type {keyof typeof parsers} */ (name)]();
    console.log(time(() => run(input)));
  } else {
    const run = await matchers[/** @type {keyof typeof matchers} */ (name)]();
    const [pattern, text] = JSON.parse(input);
    console.log(time(() => run(pattern, text)));
  }
  process.exit();
}

const MESSAGE = '## Report\n\nThe *survey* of the **north field** took `6` rows, see [the log](https://example.org/log).\n\n- dry: 9\n- plants: 412\n  1. checked\n  2. counted\n\n'
  + '| what | found |\n|---|--:|\n| share | 2.2 % |\n\n```js\nconst share = 9 / 412;\n```\n\n> quoted, with ~~this~~ removed\n\n';
const SIZE = 50_000;
const HOSTILE = ['[', '*a_ ', '`', '> ', '![](', '- ', '_*', '<', '|a', '[a](', '**a *b '].map((part) => part.repeat(SIZE / part.length)).concat(
  `${'*'.repeat(SIZE / 2)}a${'*'.repeat(SIZE / 2)}`, `${'[a'.repeat(SIZE / 4)}${'](b)'.repeat(SIZE / 8)}`, Array.from({ length: 300 }, (_, at) => `${'`'.repeat(at)}a`).join(' '));

console.log('| Markdown | gzipped bytes | a message of 400 characters, µs | worst of hostile texts of 50 kB, ms |\n|---|--:|--:|--:|');
for (const [name, make] of Object.entries(parsers)) {
  const run = await make();
  const size = name === 'ours' ? ['markdown', 'inline'].map((part) => bytes(fileURLToPath(new URL(`../src/model/${part}.js`, import.meta.url)))).join(' and ')
    : `${bytes(require.resolve(name))} and ${bytes(require.resolve('dompurify'))} of DOMPurify`;
  console.log(`| ${name} | ${size} | ${(median(() => run(MESSAGE)) * 1000).toFixed(0)} | ${worst(`markdown:${name}`, HOSTILE)} |`);
}

const PATTERNS = [['^[a-z]+@[a-z]+\\.[a-z]{2,}$', 'somebody@example.org'], ['^\\d{4}-\\d{2}-\\d{2}$', '2026-11-18']];
const TRAPS = [['^(a+)+$', `${'a'.repeat(40)}b`], ['^(a|aa)+$', `${'a'.repeat(60)}b`], ['(x+x+)+y', 'x'.repeat(60)], ['^(([a-z])+.)+[A-Z]([a-z])+$', 'a'.repeat(60)]];
console.log('\n| patterns of schemas | gzipped bytes | two usual patterns, µs | worst of four patterns that backtrack, ms |\n|---|--:|--:|--:|');
for (const [name, make] of Object.entries(matchers)) {
  const run = await make();
  const size = name === 'ours' ? bytes(fileURLToPath(new URL('../src/model/pattern.js', import.meta.url))) : name === 're2js' ? bytes(require.resolve('re2js')) : '0';
  const usual = median(() => PATTERNS.forEach(([pattern, text]) => run(pattern, text)));
  console.log(`| ${name} | ${size} | ${(usual * 1000).toFixed(0)} | ${worst(`pattern:${name}`, TRAPS.map((trap) => JSON.stringify(trap)))} |`);
}
