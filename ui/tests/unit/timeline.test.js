import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ends } from '../support/ends.js';
import { coveredTime, criticalPath } from '../../src/model/critical.js';
import { scaleOf } from '../../src/model/scale.js';
import { axis, beside, density, lay, marks, visible } from '../../src/model/timeline.js';

/** Calls of the form `[id, callee, began, ended, parent]`; without an end they run. */
const calls = (...told) => told.map(([id, callee, began, ended, parent]) => ({
  id, caller: 'alice', callee, method: 'tools/call', tool: id, params: {}, request: {}, notices: [],
  state: ended === undefined ? 'running' : 'done', began, ended, parent,
}));

/** The rows of a layout, each as the calls in it. */
const rows = (layout) => layout.rows.map((row) => row.map((bar) => bar.call.id).join(' '));

test('calls at the same time have rows of their own, in the lane of whom they were put to', () => {
  const layout = lay(calls(['a', 'rover', 0, 100], ['b', 'rover', 50, 80], ['c', 'rover', 100, 120], ['d', 'calc', 10, 20], ['e', 'rover', 90]),
    { by: 'people', now: 150 });
  assert.deepEqual(layout.lanes.map(({ id, row, rows: many }) => [id, row, many]), [['alice', 0, 1], ['rover', 1, 2], ['calc', 3, 1]]);
  assert.deepEqual(rows(layout), ['', 'a c', 'b e', 'd']);
  assert.equal(layout.byId.get('e')?.to, 150);
  for (const row of layout.rows) row.forEach((bar, at) => assert.ok(at === 0 || row[at - 1].to <= bar.from));
});

test('by tool, calls of one tool share a lane whoever has it, and callers have none', () => {
  const layout = lay(calls(['read', 'north', 0, 10], ['write', 'disk', 5, 9], ['read', 'south', 20, 30]).map((call, at) => ({ ...call, id: `${call.id}${at}`, params: { name: call.tool } })),
    { by: 'tools', now: 0 });
  assert.deepEqual(layout.lanes.map(({ id, row, rows: many }) => [id, row, many]), [['read', 0, 1], ['write', 1, 1]]);
  assert.deepEqual(rows(layout), ['read0 read2', 'write1']);
});

test('the critical path is what was waited for last, and within that again', () => {
  const layout = lay(calls(['a', 'x', 0, 100], ['b', 'x', 5, 40, 'a'], ['c', 'x', 10, 20, 'a'], ['d', 'x', 45, 90, 'a'], ['e', 'x', 50, 80, 'd'], ['f', 'x', 50, 60, 'd'],
    ['g', 'x', 110, 150], ['h', 'x', 105, 200], ['i', 'x', 102, 104]), { by: 'calls', now: 0 });
  const ids = (/** @type {Iterable<any>} */ path) => [...path].map((bar) => bar.call.id).sort().join('');
  assert.equal(ids(criticalPath(layout, layout.byId.get('a'))), 'abde');
  assert.equal(ids(criticalPath(layout)), 'abdehi');
  assert.equal(coveredTime(criticalPath(layout, layout.byId.get('a'))), 100);
  const liars = lay(calls(['a', 'x', 0, 1, 'b'], ['b', 'x', 0, 1, 'a']), { by: 'people', now: 0 });
  assert.equal(ids(criticalPath(liars, liars.byId.get('a'))), 'ab');
});

test('by call each has a row, with what it brought about below it', () => {
  const layout = lay(calls(['a', 'rover', 0, 100], ['z', 'calc', 5, 6], ['b', 'calc', 10, 20, 'a'], ['c', 'alice', 12, 15, 'b'], ['d', 'calc', 30, 40, 'a']),
    { by: 'calls', now: 0 });
  assert.deepEqual(rows(layout), ['a', 'b', 'c', 'd', 'z']);
  assert.deepEqual(layout.rows.map(([bar]) => bar.depth), [0, 1, 2, 1, 0]);
});

test('liars who are each other\'s parents hide only themselves', () => {
  const layout = lay(calls(['a', 'x', 0, 1, 'b'], ['b', 'x', 0, 1, 'a'], ['c', 'x', 2, 3, 'c']), { by: 'calls', now: 0 });
  assert.deepEqual(rows(layout), ['c']);
  assert.deepEqual(layout.bars.map((bar) => bar.call.id), ['c']);
});

test('a clock that goes backwards makes no negative bar', () => {
  const [bar] = lay(calls(['a', 'rover', 100, 50]), { by: 'people', now: 0 }).bars;
  assert.deepEqual([bar.from, bar.to], [100, 100]);
});

test('pauses are folded, and places keep their order', () => {
  const spans = [{ from: 0, to: 1000 }, { from: 2000, to: 3000 }, { from: 3_600_000, to: 3_601_000 }];
  const folded = scaleOf(spans, { fold: true });
  assert.equal(folded.stretches.length, 2);
  assert.equal(folded.place(1000) - folded.place(0), 1000);
  assert.equal(folded.place(3_601_000) - folded.place(3_600_000), 1000);
  assert.ok(folded.length < 10_000);
  const flat = scaleOf(spans, { fold: false });
  assert.equal(flat.stretches.length, 1);
  assert.ok(flat.length > 3_600_000);
  let before = -1;
  for (let time = -500; time < 3_602_000; time += 250) {
    const place = folded.place(time);
    assert.ok(place >= before && place >= 0 && place <= folded.length, `at ${time}`);
    if (time >= 0 && time <= 3_601_000) assert.ok(Math.abs(folded.time(place) - time) < 1e-3, `back to ${time}`);
    before = place;
  }
});

test('an empty scale has a length all the same', () => {
  const scale = scaleOf([], { fold: true });
  assert.ok(scale.length > 0);
  assert.equal(density(lay([], { by: 'people', now: 0 }), scale, 3).length, 3);
});

test('of ten thousand calls only what can be told apart is drawn', () => {
  const many = calls(...Array.from({ length: 10_000 }, (_, at) => [`c${at}`, `p${at % 5}`, at * 10, at * 10 + 5]));
  const layout = lay(many, { by: 'people', now: 0 });
  const scale = scaleOf(layout.bars, { fold: true });
  const view = { x: 0, span: scale.length, width: 1000, top: 0, bottom: 100 };
  const seen = visible(layout, scale, view);
  assert.ok(seen.length < 6 * 350, `${seen.length} pieces`);
  assert.equal(seen.reduce((sum, each) => sum + each.crowd, 0), 10_000, 'none is left out');
  const close = visible(layout, scale, { ...view, x: 50_000, span: 500 });
  assert.ok(close.length >= 45 && close.length <= 60, `${close.length} pieces`);
  assert.ok(close.every((each) => each.crowd === 1 && each.to >= -4 && each.from <= 1000));
  assert.equal(visible(layout, scale, { ...view, top: 2, bottom: 3 }).every((each) => each.bar.row === 2), true);
});

test('a failure among many is not lost', () => {
  const many = calls(...Array.from({ length: 100 }, (_, at) => [`c${at}`, 'rover', at, at + 1]));
  many[50].state = 'failed';
  const layout = lay(many, { by: 'people', now: 0 });
  const scale = scaleOf([...layout.bars, { from: 0, to: 100_000 }], { fold: true });
  const seen = visible(layout, scale, { x: 0, span: scale.length, width: 100, top: 0, bottom: 10 });
  assert.equal(seen.length, 1);
  assert.ok(seen[0].failed);
  const chosen = layout.byId.get('c20');
  const apart = visible(layout, scale, { x: 0, span: scale.length, width: 100, top: 0, bottom: 10 }, chosen);
  assert.deepEqual(apart.map((each) => each.crowd), [20, 1, 79], 'the chosen one stands alone');
  assert.ok(density(layout, scale, 10).some((each) => each.failed));
});

test('times on the axis do not crowd, and folds say how long they are', () => {
  const scale = scaleOf([{ from: 0, to: 10_000 }, { from: 500_000, to: 510_000 }], { fold: true });
  const { ticks, folds } = axis(scale, { x: 0, span: scale.length, width: 1000 });
  assert.ok(ticks.length >= 4 && ticks.length <= 13);
  ticks.forEach((tick, at) => assert.ok(at === 0 || tick.px - ticks[at - 1].px >= 80));
  assert.equal(folds.length, 1);
  assert.equal(Math.round(folds[0].ms / 1000), 490);
  for (const { time } of ticks) assert.equal(Math.abs(time % 1000), 0);
});

test('progress and questions are marked within their call', () => {
  const [call, sub, other] = calls(['tour', 'rover', 100, 200], ['ask', 'alice', 250, 260, 'tour'], ['sum', 'calc', 150, 160, 'tour']);
  sub.method = 'elicitation/create';
  call.notices = [{ id: 'n1', at: 50, payload: { method: 'notifications/progress' } }, { id: 'n2', at: 150, payload: { method: 'notifications/message' } }];
  const [bar] = lay([call], { by: 'people', now: 0 }).bars;
  assert.deepEqual(marks(bar, [sub, other]), [{ at: 100, type: 'progress', id: 'n1' }, { at: 200, type: 'question', id: 'ask' }]);
});

test('one goes from call to call in time, and from row to row', () => {
  const layout = lay(calls(['a', 'rover', 0, 100], ['b', 'calc', 10, 20], ['c', 'calc', 90, 95], ['d', 'rover', 200, 300]), { by: 'people', now: 0 });
  const at = (id) => layout.byId.get(id);
  const go = (id, where) => beside(layout, at(id), where)?.call.id;
  assert.equal(go('none', 'right'), 'd');
  assert.deepEqual([go('a', 'right'), go('b', 'right'), go('d', 'right'), go('b', 'left'), go('a', 'left')], ['b', 'c', 'd', 'a', 'a']);
  assert.deepEqual([go('a', 'down'), go('d', 'down'), go('c', 'up'), go('a', 'up'), go('b', 'down')], ['b', 'c', 'a', 'a', 'b']);
  assert.deepEqual([go('b', 'first'), go('b', 'last')], ['a', 'd']);
});

test('the lowest free row is taken, whichever became free first', () => {
  const layout = lay(calls(['a', 'x', 0, 50], ['b', 'x', 1, 20], ['c', 'x', 2, 10], ['d', 'x', 20, 30], ['e', 'x', 20, 90], ['f', 'x', 50, 60]),
    { by: 'people', now: 0 });
  assert.deepEqual(rows(layout).slice(1), ['a f', 'b d', 'c e']);
});

test('very many calls that nobody answers are laid out soon', async () => {
  const told = await ends(['model/timeline.js', 'model/scale.js'], ({ density: crowd, lay: out, scaleOf: scale }) => {
    const open = Array.from({ length: 300_000 }, (_, at) => ({ id: `c${at}`, caller: 'a', callee: 'x', state: 'running', began: at }));
    const layout = out(open, { by: 'people', now: 1_000_000 });
    return [layout.rows.length, Math.max(...crowd(layout, scale(layout.bars, { fold: true }), 2000).map((each) => each.busy))];
  });
  assert.deepEqual(told, [300_001, 300_000]);
});

test('what begins at the pixel of a short call does not hide it', () => {
  const layout = lay(calls(['a', 'rover', 0, 1], ['b', 'rover', 1, 2], ['c', 'rover', 2, 3], ['long', 'rover', 3, 10_000]), { by: 'people', now: 0 });
  const scale = scaleOf(layout.bars, { fold: true });
  const seen = visible(layout, scale, { x: 0, span: scale.length, width: 500, top: 0, bottom: 10 });
  const inRow = seen.filter((each) => each.bar.call.callee === 'rover').sort((a, b) => a.from - b.from);
  assert.deepEqual(inRow.map((each) => each.crowd), [3, 1]);
  assert.ok(inRow[0].to < inRow[1].from, 'beside each other');
  assert.ok(inRow[0].to - inRow[0].from >= 3);
});
