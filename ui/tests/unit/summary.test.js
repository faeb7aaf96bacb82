import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asHtml, asJson } from '../../src/model/exported.js';
import { summaryOf } from '../../src/model/summary.js';

const call = (id, callee, tool, began, ended, state = 'done') => ({
  id, caller: 'ada', callee, method: 'tools/call', tool, params: { name: tool, arguments: {} }, notices: [], state, began, ended,
  request: { id, raw: `{"id":"${id}","payload":{"params":{"name":"${tool}","arguments":{"x":"<b>"}}}}`, at: began, payload: { params: { name: tool, arguments: { x: '<b>' } } } },
});

test('calls are counted by whom and what was called, with how long they took', () => {
  const calls = [call('1', 'lab', 'add', 0, 10), call('2', 'lab', 'add', 5, 25), call('3', 'lab', 'add', 30, 31, 'failed'), call('4', 'bob', 'look', 100, undefined, 'running'),
    { ...call('5', 'lab', 'x', 0, 1), method: 'tools/list', tool: undefined }];
  const { lines, ...all } = summaryOf(/** @type {any} */ (calls));
  assert.deepEqual(all, { calls: 4, failed: 1, running: 1, from: 0, to: 100, busy: 26 });
  assert.deepEqual(lines, [
    { callee: 'lab', what: 'add', calls: 3, failed: 1, running: 0, median: 10, longest: 20, total: 31 },
    { callee: 'bob', what: 'look', calls: 1, failed: 0, running: 1, median: 0, longest: 0, total: 0 },
  ]);
});

test('an exported run has what was said as text, and can run nothing', () => {
  const said = /** @type {any} */ ({ type: 'chat', id: 'm"1', rev: 0, envelope: { id: 'm"1', from: '<i>mal</i>', at: 1, kind: 'mcp', raw: '{"a":1}',
    payload: { method: 'notifications/chat/message', params: { text: '<script>alert(1)</script> & "so"' } } } });
  const one = /** @type {any} */ (call('1', 'lab', '<img>', 0, 10));
  const page = asHtml({ topic: 'room:<x>', items: [said, { type: 'call', id: '1', rev: 0, call: one }], summary: summaryOf([one]), name: (id) => id, now: 5 });
  assert.ok(!/<script|<img|<i>|<b>"|room:<x>/.test(page), page);
  assert.match(page, /default-src 'none'/);
  assert.match(page, /&#60;script&#62;alert\(1\)/);
  assert.deepEqual(JSON.parse(asJson([said.envelope, one.request])).length, 2);
});
