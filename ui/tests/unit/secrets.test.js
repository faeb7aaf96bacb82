import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formOf } from '../../src/model/schema.js';
import { secretsIn } from '../../src/model/secrets.js';

test('secrets are found by what the schema says, by their names, and inside of objects', () => {
  const properties = {
    user: { type: 'string' }, max_tokens: { type: 'integer' }, pageToken: { type: 'string' }, secretary: { type: 'string' },
    pass: { type: 'string', format: 'password' }, hidden: { type: 'string', writeOnly: true }, apiKey: { type: 'string' }, db_password: { type: 'string', title: 'Database' },
    inner: { type: 'object', properties: { client_secret: { type: 'string' } } },
  };
  const shape = formOf({ type: 'object', properties });
  const value = { user: 'u', max_tokens: 1, pageToken: 'p', secretary: 's', pass: 'x', hidden: 'x', apiKey: 'x', db_password: 'x', inner: { client_secret: 'x' } };
  assert.deepEqual(secretsIn(shape, value), ['pass', 'hidden', 'apiKey', 'Database', 'client_secret']);
});

test('what is empty or left out is no secret', () => {
  const shape = formOf({ type: 'object', properties: { password: { type: 'string' }, secret: { type: 'string' } } });
  assert.deepEqual(secretsIn(shape, { password: '' }), []);
  assert.deepEqual(secretsIn(shape, null), []);
});
