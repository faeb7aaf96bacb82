import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keptFor } from '../../src/model/retention.js';

test('what a room keeps is said in words', () => {
  const day = 24 * 60 * 60 * 1000;
  assert.equal(keptFor({}), 'for ever');
  assert.equal(keptFor({ max_age_ms: 30 * day }), 'for 30 days');
  assert.equal(keptFor({ max_age_ms: day, max_entries: 1 }), 'for 24 hours, at most 1 envelope');
  assert.equal(keptFor({ max_age_ms: 90_000, max_entries: 1000 }), 'for 2 minutes, at most 1000 envelopes');
});
