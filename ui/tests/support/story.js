// A lively room for screenshots: people, agents and a robot who plan a survey, with calls at the same time, progress, a question and a failure.

import { stage } from './stage.js';

export const ROOM = 'room:field';

export const CAST = {
  planner: { name: 'Planner', kind: 'agent' },
  rover: { name: 'Rover 2', kind: 'robot' },
  weather: { name: 'Weather', kind: 'agent' },
  calc: { name: 'Calc', kind: 'agent' },
  archive: { name: 'Archive', kind: 'agent' },
  'probe-north': { name: 'Probe north', kind: 'robot' },
  'probe-south': { name: 'Probe south', kind: 'robot' },
  bert: { name: 'Bert', kind: 'human' },
};

/** Everybody comes. @param {import('playwright-core').Browser} browser @param {import('./gateway.js').Gateway} gateway @param {number} [speed] 1: as in life; 0: no time is spent on anything */
export async function begin(browser, gateway, speed = 0) {
  const page = await stage(browser, gateway, ROOM, CAST, speed);
  await page.evaluate(async () => {
    const { actors, wait } = /** @type {any} */ (window).stage;
    const { planner, rover, weather, calc, archive, bert } = actors;
    const probes = [actors['probe-north'], actors['probe-south']];
    const number = { type: 'number' };
    const word = { type: 'string' };
    rover.offer('survey', 'Drives over a field row by row and looks at every plant', {
      field: { type: 'string', enum: ['north', 'south', 'orchard'], description: 'Which field' },
      rows: { type: 'integer', minimum: 1, maximum: 40, default: 6, description: 'How many rows' },
      camera: { type: 'object', description: 'How pictures are taken', properties: { exposure: number, night: { type: 'boolean', default: false } } },
      tags: { type: 'array', items: word, description: 'Words to file the pictures under' },
    }, async (/** @type {any} */ { field, rows = 6 }, /** @type {any} */ { progress, about }) => {
      for (let row = 1; row <= rows; row += 1) {
        await wait(330);
        await progress(row, rows, `row ${row} of the ${field} field`);
        if (row === 3 && actors.asksAda) {
          const schema = { type: 'object', required: ['choice'], properties: {
            choice: { type: 'string', title: 'What now', enum: ['go on', 'charge first', 'come home'] },
            reserve: { type: 'integer', title: 'Keep in reserve, %', minimum: 5, maximum: 50, default: 15 } } };
          await rover.request('ada', 'elicitation/create', { message: 'The battery is at 34 %. Shall I go on?', requestedSchema: schema }, about);
        }
      }
      return { content: [{ type: 'text', text: `Surveyed ${rows} rows of the ${field} field: 412 plants, 9 of them dry.` }],
        structuredContent: { field, rows, plants: 412, dry: 9 } };
    }, { annotations: { destructiveHint: false } });
    rover.offer('return_home', 'Drives back to the dock', { speed: number }, async (/** @type {any} */ _, /** @type {any} */ { progress }) => {
      for (let step = 1; step <= 5; step += 1) {
        await wait(300);
        await progress(step, 8, `${(8 - step) * 12} m to go`);
      }
      return new Promise(() => {});
    });
    weather.offer('forecast', 'The next hours at a place', { place: word, hours: { type: 'integer', default: 6 } }, async () => {
      await wait(700);
      return 'Dry until 18:00, wind from the west at 4 m/s, then light rain.';
    });
    calc.offer('evaluate', 'Computes + - * / and parentheses', { expression: word }, async (/** @type {any} */ { expression }) => {
      await wait(60);
      return String(expression === '9 / 412 * 100' ? 2.18 : 42);
    });
    archive.offer('write', 'Keeps a report', { path: word, text: word }, async (/** @type {any} */ { path }) => {
      await wait(420);
      if (path.startsWith('/reports/')) throw new Error('permission denied: /reports is read-only for planner');
      return `kept as ${path}`;
    });
    for (const probe of probes) {
      probe.offer('read', 'Moisture and temperature of the soil', {}, async () => {
        await wait(probe.id === 'probe-north' ? 520 : 900);
        return { content: [{ type: 'text', text: 'moisture 18 %, 11.4 °C' }], structuredContent: { moisture: 18, celsius: 11.4 } };
      });
    }
    for (const actor of [planner, rover, weather, calc, archive, ...probes, bert]) await actor.enter();
    for (const peer of ['rover', 'weather', 'calc', 'archive', 'probe-north', 'probe-south']) await planner.meet(peer);
  });
  return page;
}

/** Plays the story; `asksAda`: the rover asks the person who looks on, who must answer. @param {import('playwright-core').Page} page @param {{asksAda?: boolean, about?: string}} [how] */
export function play(page, { asksAda = false, about } = {}) {
  return page.evaluate(async ({ asksAda: asks, about: first }) => {
    const { actors, wait } = /** @type {any} */ (window).stage;
    const { planner, bert } = actors;
    actors.asksAda = asks;
    const plan = await planner.say('On it. The plan:\n\n1. forecast and soil **at the same time**\n2. `survey` with Rover 2, six rows\n3. a report in the archive\n\n'
      + 'Roughly *two minutes*, unless the rover has questions.', { markdown: true, about: first });
    await wait(200);
    const survey = planner.call('rover', 'survey', { field: 'north', rows: 6, camera: { exposure: 0.4, night: false }, tags: ['dry', 'november'] }, plan.id);
    const meanwhile = [
      planner.call('weather', 'forecast', { place: 'north field', hours: 6 }),
      planner.call('probe-north', 'read'),
      planner.call('probe-south', 'read'),
    ];
    await wait(350);
    meanwhile.push(planner.call('calc', 'evaluate', { expression: '6 * 7' }));
    await Promise.all(meanwhile);
    await bert.say('Is that the old rover? The left wheel was loose last week.', { about: plan.id });
    await survey;
    await wait(3600);
    await planner.call('calc', 'evaluate', { expression: '9 / 412 * 100' });
    const denied = planner.call('archive', 'write', { path: '/reports/north.md', text: '…' });
    await denied;
    await planner.call('archive', 'write', { path: '/shared/north.md', text: '# North field\n…' });
    await planner.say('### North field\n\n| what | found |\n|---|--:|\n| plants | 412 |\n| dry | 9 |\n| share | 2.2 % |\n\nKept as `/shared/north.md`. '
      + 'The forecast is dry until 18:00, so @ada could water today. @bert, the wheel held.', { markdown: true, about: plan.id });
    await wait(300);
    void planner.call('rover', 'return_home', { speed: 0.8 });
    await wait(1800);
    return plan.id;
  }, { asksAda, about });
}
