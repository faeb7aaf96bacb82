// What axe (https://github.com/dequelabs/axe-core) finds on a page.

import axe from 'axe-core';

/** The rules whose outcome follows from the colour scheme. All others see the same page in both schemes. */
const COLOUR_RULES = ['color-contrast', 'link-in-text-block'];

/** What axe finds serious on a page as it is now. @param {import('playwright-core').Page} page @param {boolean} colourOnly whether only rules on colour run */
export async function findings(page, colourOnly) {
  await page.evaluate(axe.source);
  const runOnly = colourOnly
    ? { type: 'rule', values: COLOUR_RULES }
    : { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] };
  const { violations } = await page.evaluate((only) => /** @type {any} */ (window).axe.run(document, { runOnly: only, rules: { 'label-content-name-mismatch': { enabled: true } }, resultTypes: ['violations'] }), runOnly);
  return violations.filter((each) => each.impact === 'serious' || each.impact === 'critical')
    .map((each) => `${each.id}: ${each.nodes.slice(0, 3).map((node) => `${node.target} (${node.any[0]?.message ?? node.all[0]?.message ?? ''})`).join('; ')}`);
}

/** The same in light and dark colours. @param {import('playwright-core').Page} page @param {string} name of the view @returns {Promise<string[]>} */
export async function findingsInBoth(page, name) {
  const found = [];
  for (const colorScheme of /** @type {const} */ (['light', 'dark'])) {
    await page.emulateMedia({ colorScheme });
    await page.waitForFunction((wanted) => matchMedia(`(prefers-color-scheme: ${wanted})`).matches, colorScheme);
    found.push(...(await findings(page, colorScheme === 'dark')).map((each) => `${name}, ${colorScheme}: ${each}`));
  }
  return found;
}
