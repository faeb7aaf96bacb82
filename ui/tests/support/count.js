// Waits for a number of elements. What is drawn beside the transcript (the list of rooms, the bar) follows it a moment later, so a count that is
// taken once can be a moment too early.

const LIMIT = 90_000;
const INTERVAL = 20;

/**
 * Until exactly so many elements match.
 * @param {import('playwright-core').Locator} locator @param {number} wanted
 */
export async function waitForCount(locator, wanted) {
  const end = Date.now() + LIMIT;
  for (;;) {
    const found = await locator.count();
    if (found === wanted) return;
    if (Date.now() > end) throw new Error(`waited for ${wanted} of ${locator}, there are ${found}`);
    await new Promise((resolve) => { setTimeout(resolve, INTERVAL); });
  }
}
