// The main ways through the page in Firefox: what works in Chromium may be missing there.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Firefox } from '../support/firefox.js';
import { binary, chat, Gateway } from '../support/gateway.js';

const ROOM = 'room:fox';

/** @type {Firefox} */
let firefox;
/** @type {Gateway} */
let gateway;
before(async () => {
  gateway = await Gateway.start({ args: ['--auth-create-topics', 'anyone'] });
  firefox = await Firefox.launch(process.env.FIREFOX ?? '/usr/bin/firefox-esr');
});
after(async () => {
  await firefox?.close();
  await gateway?.stop();
});

/** Presses a button by its name, once it is there. Found and pressed at once: the page may draw it anew in between. @param {string} name @param {string} [within] */
const press = (name, within = 'body') => firefox.until((label, place) => {
  const found = [...document.querySelectorAll(`${place} button, ${place} summary`)]
    .find((each) => (each.getAttribute('aria-label') ?? each.textContent ?? '').trim() === label && !(/** @type {any} */ (each).disabled));
  if (found instanceof HTMLElement) found.click();
  return found !== undefined;
}, name, within);
/** Waits for a text on the page. @param {string} text @param {string} [within] */
const sees = (text, within = 'body') => firefox.until((wanted, place) => document.querySelector(place)?.textContent?.includes(wanted), text, within);

/** Writes into the field with a label. @param {string} field @param {string} text @param {string} within */
const fill = (field, text, within) => firefox.until((name, value, place) => {
  const found = [...document.querySelectorAll(`${place} label`)].find((label) => label.textContent?.replace('*', '').trim() === name);
  const input = found instanceof HTMLLabelElement ? found.control : null;
  if (!(input instanceof HTMLInputElement || input instanceof HTMLTextAreaElement)) return false;
  input.value = value;
  input.dispatchEvent(new Event('input', { bubbles: true }));
  return true;
}, field, text, within);

test('a person signs in, talks, reads, sees calls over time and changes the settings', { timeout: 240_000 }, async () => {
  await firefox.goto(gateway.link ?? '');
  await sees('Rooms');
  await firefox.goto(`${gateway.url}/#/room/${ROOM}`);
  await firefox.until(() => document.querySelector('.dot[data-state="live"]') !== null);
  // Without a mouse the page leaves the focus alone.
  await firefox.evaluate(() => document.getElementById('composer')?.focus());
  await firefox.type('hello from **Firefox**');
  await firefox.type('\uE007');
  await sees('hello from Firefox', '.transcript');
  await gateway.post(ROOM, await gateway.token('bob'), chat('m1', 'bob', 'and hello to you, @alice'));
  await firefox.until(() => document.querySelector('article.chat.called') !== null);

  // The virtual list, which measures its rows, with more than fits on the screen.
  const token = await gateway.token('bob');
  for (let at = 0; at < 60; at += 1) await gateway.post(ROOM, token, chat(`n${at}`, 'bob', `line ${at}`));
  await sees('line 59', '.transcript');
  assert.equal(await firefox.evaluate(() => {
    const list = /** @type {HTMLElement} */ (document.querySelector('.virtual'));
    return list.scrollHeight - list.scrollTop - list.clientHeight < 40;
  }), true, 'the newest is in sight');

  await press('Settings of this room');
  await sees('This room has no settings', '.panel');
  await firefox.evaluate(() => {
    const field = /** @type {HTMLInputElement} */ (document.querySelector('.settings input'));
    field.value = 'Fox den';
    field.dispatchEvent(new Event('input', { bubbles: true }));
  });
  await press('Save', '.panel');
  await sees('Fox den', 'h1');
  await press('Stop', '.top');
  await press('Stop everything', 'dialog[open]');
  await sees('This room is stopped', '.banner');
  await press('Resume', '.banner');
  await firefox.until(() => document.querySelector('.banner') === null);
  await firefox.goto(`${gateway.url}/#/room/${ROOM}/timeline`);
  await firefox.until(() => document.querySelector('.tl-bar') !== null);
  await firefox.goto(`${gateway.url}/#/room/${ROOM}`);
  await sees('line 59', '.transcript');
  assert.deepEqual(firefox.trouble, []);
});

test('a tool is called by its form, and a question is answered by its form', { timeout: 240_000 }, async () => {
  const room = 'room:fox-calls';
  await gateway.guest(room, 'lab', [binary('RMCP_SERVER_BIN')], { name: 'Lab' });
  await firefox.goto(`${gateway.url}/#/room/${room}?person=lab`);
  await firefox.until(() => document.querySelector('.panel .offer') !== null);
  const open = (/** @type {string} */ tool) => firefox.until((name) => {
    const offer = [...document.querySelectorAll('.panel .offer')].find((each) => each.querySelector('b, .offer-name')?.textContent?.trim() === name);
    if (offer instanceof HTMLElement) offer.click();
    return offer !== undefined;
  }, tool);

  // What is missing is said before anything is sent.
  await open('slow');
  await press('Call', '.panel');
  await sees('Not sent: 1 error above.', '.panel');
  await fill('ms', '0', '.panel');
  await press('Call', '.panel');
  await sees('"ms": 0', 'dialog[open]');
  await press('Call', 'dialog[open]');
  await firefox.until(() => document.querySelector('article.call[data-state="done"]') !== null);

  await press('\u2190 All tools', '.panel');
  await open('test_elicitation');
  await fill('message', 'Who are you?', '.panel');
  await press('Call', '.panel');
  await press('Call', 'dialog[open]');
  // The participant's own panel has the question too, until the one with all questions is there.
  await firefox.until(() => document.querySelector('.ask-badge[data-open]') !== null);
  await firefox.evaluate(() => /** @type {HTMLElement} */ (document.querySelector('.ask-badge')).click());
  await firefox.until(() => document.querySelector('.panel[aria-label="For you"] .ask') !== null);
  await sees('Who are you?', '.ask');
  await fill('username', 'fox', '.ask');
  await fill('email', 'fox@example.org', '.ask');
  await press('Answer', '.ask');
  await firefox.until(() => [...document.querySelectorAll('article.call[data-state="done"]')].some((card) => card.textContent?.includes('"fox@example.org"') && card.textContent.includes('test_elicitation')));
  await firefox.until(() => document.querySelector('.ask') === null);
  assert.deepEqual(firefox.trouble, []);
});
