// How most tests begin: a gateway, Alice in a room of it, and others who are played beside her.

import { scene } from './browser.js';
import { stage } from './stage.js';

/**
 * Alice in a room.
 * @param {import('node:test').TestContext} t @param {import('playwright-core').Browser} browser @param {string} topic
 * @param {{view?: string, name?: string, window?: object, how?: {args?: string[], user?: string}, cast?: Record<string, {name?: string, kind?: string}>}} [with_]
 *   view: what follows the room in the address; window: options of her browser's context; how: the gateway is started; cast: who else is
 *   played, by id, in the page `cast`
 */
export async function entered(t, browser, topic, { view, name, window, how, cast: others } = {}) {
  const { gateway, visitor, done } = await scene(t, browser, how);
  const alice = await visitor(window);
  await alice.signIn('alice', { name });
  await alice.enter(topic, view);
  const cast = /** @type {import('playwright-core').Page} */ (others && await stage(browser, gateway, topic, others));
  return {
    gateway, visitor, alice, page: alice.page, cast,
    async done() {
      await cast?.context().close();
      await done();
    },
  };
}
