// Work that must come to an end, in a thread of its own, which is ended where it does not.

import { Worker } from 'node:worker_threads';

/** Far more than good code needs for what the tests ask of it, and far less than bad code would take. */
const PATIENCE = 30_000;

/**
 * What a function makes of a module of the page. The function is handed over as its source: it sees nothing else.
 * @param {string} path of the module, below ui/src @param {(module: any) => any} work
 */
export async function ends(path, work) {
  const url = JSON.stringify(new URL(`../../src/${path}`, import.meta.url).href);
  const worker = new Worker(`import(${url}).then((module) => require('node:worker_threads').parentPort.postMessage((${work})(module)))`, { eval: true });
  let timer;
  try {
    return await new Promise((resolve, reject) => {
      timer = setTimeout(() => reject(new Error('it goes on and on')), PATIENCE);
      worker.on('message', resolve).on('error', reject).on('exit', () => reject(new Error('it ended without a word')));
    });
  } finally {
    clearTimeout(timer);
    await worker.terminate();
  }
}
