// Makes the pictures of docs/images from a lively room. A picture that no page shows fails `cargo xtask tidy`: add it to PICTURES with its page.
//
//   SALON_BIN=… node ui/tests/screenshots.mjs [NAME…]     all pictures, or those whose names contain one of these

import { spawnSync } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { launch, Visitor } from './support/browser.js';
import { Gateway } from './support/gateway.js';
import { begin, play, ROOM } from './support/story.js';

const PLACE = fileURLToPath(new URL('../../docs/images/', import.meta.url));
const PICTURES = ['asked-light', 'inspector-wide-light', 'timeline-wide-dark', 'tool-wide-light', 'transcript-narrow-dark', 'transcript-wide-light'];
const SHAPES = { wide: { width: 1280, height: 800 }, narrow: { width: 390, height: 760 } };
const wanted = process.argv.slice(2);

await mkdir(PLACE, { recursive: true });
const gateway = await Gateway.start({ user: 'ada' });
// Letters in shades of grey look the same everywhere, and take less space.
const browser = await launch(['--disable-lcd-text']);
try {
  const cast = await begin(browser, gateway, 1);
  const first = await Visitor.come(browser, gateway, { viewport: SHAPES.wide, reducedMotion: 'reduce' });
  await first.signIn('ada', { name: 'Ada' });
  await first.enter(ROOM);
  await first.say('@planner, please survey the north field and keep a short report.');
  const asked = await first.page.locator('[data-row]', { hasText: 'survey the north field' }).first().getAttribute('data-row') ?? undefined;
  const playing = play(cast, { asksAda: true, about: asked });
  await first.page.locator('.ask').waitFor();
  await look(first, 'asked');
  await first.page.getByLabel(/What now/).selectOption({ label: 'go on' });
  await first.page.locator('.ask').getByRole('button', { name: 'Answer' }).click();
  await playing;
  await first.context.close();

  for (const [shape, viewport] of Object.entries(SHAPES)) {
    const ada = await Visitor.come(browser, gateway, { viewport, reducedMotion: 'reduce' });
    await ada.page.goto(gateway.url);
    await ada.page.getByLabel('Token').waitFor();
    await look(ada, `signin-${shape}`);
    await ada.signIn('ada', { name: 'Ada' });
    await ada.page.locator('.room', { hasText: ROOM.slice('room:'.length) }).waitFor();
    await look(ada, `lobby-${shape}`);
    await ada.enter(ROOM);
    await ada.page.locator('article.call[data-state="running"]').waitFor();
    await look(ada, `transcript-${shape}`);
    await ada.enter(ROOM, '/timeline');
    await ada.page.locator('.tl-bar[data-state="running"]').waitFor();
    await ada.page.getByRole('button', { name: 'Fit' }).click();
    await ada.page.locator('.tl-bar[aria-label*="survey"]').click();
    await ada.page.locator('.tl-bar.picked').waitFor();
    await look(ada, `timeline-${shape}`);
    await ada.enter(ROOM);
    await people(ada.page, 'Rover 2');
    await ada.page.locator('.offer', { hasText: 'survey' }).click();
    await ada.page.locator('.schema-form').waitFor();
    await ada.page.locator('.schema-form select').first().selectOption({ label: 'north' });
    await look(ada, `tool-${shape}`);
    await ada.page.keyboard.press('Escape');
    await ada.page.locator('.panel').waitFor({ state: 'detached' });
    const failed = ada.page.locator('article.call[data-state="failed"]');
    await failed.locator('.call-title').scrollIntoViewIfNeeded();
    await failed.locator('.call-title').click();
    await failed.locator('.call-details').waitFor();
    await failed.getByRole('button', { name: 'Inspect' }).click();
    await ada.page.locator('pre.envelope').waitFor();
    await look(ada, `inspector-${shape}`);
    await ada.context.close();
  }
} finally {
  await browser.close();
  await gateway.stop();
}

/** Chooses somebody from those present. @param {import('playwright-core').Page} page @param {string} name */
async function people(page, name) {
  const button = page.locator('.people-button');
  if (await button.isVisible()) await button.click();
  await page.locator('.side').getByRole('button', { name }).click();
}

/** Takes the pictures of what is there now. @param {Visitor} visitor @param {string} name */
async function look({ page }, name) {
  if (wanted.length > 0 && !wanted.some((each) => name.includes(each))) return;
  // What is said for a moment only, such as that a question has come, is not part of the view.
  for (const close of await page.locator('.toast button').all()) await close.click();
  await page.mouse.move(0, 0);
  for (const colorScheme of /** @type {const} */ (['light', 'dark'])) {
    if (!PICTURES.includes(`${name}-${colorScheme}`)) continue;
    await page.emulateMedia({ colorScheme });
    await page.waitForFunction((scheme) => matchMedia(`(prefers-color-scheme: ${scheme})`).matches, colorScheme);
    const path = `${PLACE}${name}-${colorScheme}.png`;
    await page.screenshot({ path, animations: 'disabled' });
    // Fewer colours, where the tool for that is installed: nobody sees the difference, and everybody fetches less.
    spawnSync('pngquant', ['--force', '--skip-if-larger', '--strip', '--ext', '.png', '128', path]);
  }
}
