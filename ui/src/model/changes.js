// What a change of a room's settings says, in words. Pure.

import { listed } from './text.js';

/** @typedef {import('./control.js').TopicSettings} TopicSettings */

/**
 * What became of the settings: `stopped the room`, `paused bob`.
 * @param {TopicSettings|null} before null: not known @param {TopicSettings} now @param {(id: string) => string} name
 * @returns {string}
 */
export function changeText(before, now, name) {
  if (!before) return `changed the settings of this room (version ${now.version})`;
  const told = [
    ...toggled(before.stopped, now.stopped, 'stopped the room: everyone who is neither a person nor a moderator is paused', 'resumed the room'),
    ...toggled(before.archived, now.archived, 'archived the room: nothing new is stored', 'reopened the archived room'),
    ...listChange(before.paused, now.paused, name, 'paused', 'ended the pause of'),
    ...listChange(before.removed, now.removed, name, 'removed', 'readmitted'),
    ...members(before.members ?? {}, now.members ?? {}, name),
    ...(before.access ?? 'token') !== (now.access ?? 'token')
      ? [now.access === 'members' ? 'let only members enter' : 'let everybody enter whose token names the room'] : [],
    ...(before.title ?? '') !== (now.title ?? '') ? [now.title ? `called the room “${now.title}”` : 'removed the title'] : [],
    ...['description', 'default_role', 'roles', 'rules', 'limits', 'retention'].filter((key) => differs(before, now, key))
      .map((key) => `changed the ${key.replace('_', ' ')}`),
  ];
  return told.length > 0 ? listed(told, 5) : before.version === 0 ? 'gave this room settings' : 'saved the settings unchanged';
}

/** @param {any} before @param {any} now @param {string} key */
const differs = (before, now, key) => JSON.stringify(before[key] ?? null) !== JSON.stringify(now[key] ?? null);

/** @param {boolean|undefined} before @param {boolean|undefined} now @param {string} on @param {string} off */
function toggled(before = false, now = false, on, off) {
  return before === now ? [] : [now ? on : off];
}

/** @param {string[]|undefined} before @param {string[]|undefined} now @param {(id: string) => string} name @param {string} added @param {string} gone */
function listChange(before = [], now = [], name, added, gone) {
  const [more, less] = [now.filter((id) => !before.includes(id)), before.filter((id) => !now.includes(id))];
  return [...more.length > 0 ? [`${added} ${listed(more.map(name))}`] : [], ...less.length > 0 ? [`${gone} ${listed(less.map(name))}`] : []];
}

/** @param {Record<string, string>} before @param {Record<string, string>} now @param {(id: string) => string} name */
function members(before, now, name) {
  const given = Object.entries(now).filter(([id, role]) => before[id] !== role).map(([id, role]) => `made ${name(id)} ${article(role)}`);
  const gone = Object.keys(before).filter((id) => !(id in now)).map((id) => `took away the role of ${name(id)}`);
  return [...given, ...gone];
}

/** @param {string} role */
const article = (role) => `${/^[aeiou]/.test(role) ? 'an' : 'a'} ${role}`;
