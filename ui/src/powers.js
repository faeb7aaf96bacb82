// What the person may do in a room, and which held calls wait for them. What is shown follows from it; the gateway decides.

import { allowsAct, mayDecide, mayDo } from './model/control.js';

/** @typedef {import('./model/control.js').Approval} Approval */
/** @typedef {import('./model/room.js').RoomModel} RoomModel */
/** @typedef {import('./model/types.js').SessionInfo} SessionInfo */

/** Whether the person may do something here, such as `moderate`. @param {RoomModel} room @param {SessionInfo|null} session @param {string} act */
export function may(room, session, act) {
  return mayDo(room.control.settings, room.me, session ?? {}, act);
}

/** Whether the person may decide about a held call, and has not. @param {RoomModel} room @param {SessionInfo|null} session @param {Approval} approval */
export function isForMe({ control, me }, session, approval) {
  return approval.state === 'waiting' && approval.votes.every(({ by }) => by !== me) && mayDecide(approval, control.settings, me, session ?? {});
}

/** The held calls that wait for the person, oldest first. @param {RoomModel} room @param {SessionInfo|null} session @returns {Approval[]} */
export function approvalsForMe(room, session) {
  if (room.control.approvals.size === 0) return [];
  const now = Date.now();
  return [...room.control.approvals.values()].filter((approval) => isForMe(room, session, approval) && !(approval.expires < now));
}

/** Why the person cannot write here; empty where they can. @param {RoomModel} room @param {SessionInfo|null} session */
export function muteReason(room, session) {
  const { settings } = room.control;
  if (session?.capabilities !== undefined && !allowsAct(session.capabilities, 'say')) return 'Your token does not allow you to write in this room.';
  if (!settings || settings.version === 0) return '';
  if (settings.archived) return 'This room is archived: it can be read, and nothing new is stored.';
  const isFree = may(room, session, 'moderate') || session?.permissions?.includes('operator') === true;
  if (settings.paused?.includes(room.me) && !isFree) return 'You are paused in this room: you can read and answer, and nothing else.';
  return may(room, session, 'say') ? '' : 'Your role in this room does not allow you to write.';
}
