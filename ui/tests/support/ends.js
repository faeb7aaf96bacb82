// Work that must come to an end, in a thread of its own, which is ended where it does not.

import { Worker } from 'node:worker_threads';

/** Far more than good code needs, also on a machine that compiles meanwhile, and far less than bad code would take. */
const GIVE_UP_AFTER = 120_000;

/**
 * What a function makes of modules of the page. The function is handed over as its source: it sees nothing else.
 * @param {string|string[]} paths of the modules, below ui/src @param {(exported: any) => any} work
 */
export async function ends(paths, work) {
  const urls = [paths].flat().map((path) => `import(${JSON.stringify(new URL(`../../src/${path}`, import.meta.url).href)})`);
  const worker = new Worker(`Promise.all([${urls}]).then((modules) => require('node:worker_threads').parentPort.postMessage((${work})(Object.assign({}, ...modules))))`, { eval: true });
  let timer;
  try {
    return await new Promise((resolve, reject) => {
      timer = setTimeout(() => reject(new Error(`still running after ${GIVE_UP_AFTER} ms`)), GIVE_UP_AFTER);
      worker.on('message', resolve).on('error', reject).on('exit', () => reject(new Error('the worker ended without a result')));
    });
  } finally {
    clearTimeout(timer);
    await worker.terminate();
  }
}
