// Tells the person what happens where they do not look: in another room, or while the page is hidden.

import { chatText } from './model/envelope.js';
import { nameOf } from './model/people.js';
import { roomName } from './model/route.js';
import { clip } from './model/text.js';
import { isForMe } from './powers.js';
import { preference, prefer } from './view/theme.js';

/** @typedef {import('./app.js').Salon} Salon */
/** @typedef {import('./visits.js').Visit} Visit */
/** @typedef {import('./model/types.js').Envelope} Envelope */

const MAX_BODY = 200;

/** Whether the person wants desktop notifications, and the browser lets the page show them. */
export function areNotificationsOn() {
  return canNotify() && Notification.permission === 'granted' && preference('notify', 'off') === 'on';
}

/** Whether this browser has them here: not on pages served over plain HTTP from elsewhere than this machine. */
export function canNotify() {
  return typeof Notification === 'function' && isSecureContext;
}

/** Asks the browser, where it has not been asked. @param {boolean} on @returns {Promise<boolean>} whether they are on now */
export async function setNotifications(on) {
  if (on && Notification.permission === 'default') await Notification.requestPermission();
  prefer('notify', on ? 'on' : 'off');
  return areNotificationsOn();
}

export class Alerts {
  /** @param {Salon} salon */
  constructor(salon) {
    this.salon = salon;
    /** @type {WeakMap<Visit, number>} the newest question of each room that was told */
    this.told = new WeakMap();
  }

  /** An envelope has come. @param {Visit} visit @param {Envelope} envelope */
  heard(visit, envelope) {
    const { room } = visit;
    this.held(visit, envelope);
    if (!room.namesMe(envelope)) return;
    const who = nameOf(room.people, envelope.from);
    const text = clip((chatText(envelope) ?? '').replace(/\s+/g, ' '), MAX_BODY);
    const show = () => this.salon.goTo(room.topic, envelope.id);
    if (visit !== this.salon.visit) this.salon.say(`${who} mentions you in ${roomName(room.topic)}: ${clip(text, 100)}`, 'info', undefined, show);
    if (document.hidden) this.notify(`${who} mentions you in ${roomName(room.topic)}`, text, envelope.id, show);
  }

  /** A call is held, perhaps for the person to decide. @param {Visit} visit @param {Envelope} envelope */
  held(visit, envelope) {
    const { room } = visit;
    const approval = room.control.approvals.get(envelope.payload?.params?.id);
    if (approval?.notice !== envelope.id || !isForMe(room, this.salon.session, approval)) return;
    const text = `${nameOf(room.people, approval.caller)} wants to call ${clip(approval.tool, 60)} of ${nameOf(room.people, approval.callee)} in ${roomName(room.topic)}`;
    const show = () => {
      this.salon.goTo(room.topic);
      this.salon.open({ panel: 'asks' });
    };
    if (visit !== this.salon.visit) this.salon.say(`${text}. It needs an approval.`, 'info', undefined, show);
    if (document.hidden) this.notify('An approval is needed', text, envelope.id, show);
  }

  /** Something about the questions of a room has changed. @param {Visit} visit */
  asked(visit) {
    const { room, person } = visit;
    const newest = person.asks[person.asks.length - 1];
    if (!newest || newest.id <= (this.told.get(visit) ?? 0)) return;
    this.told.set(visit, newest.id);
    const who = nameOf(room.people, newest.from);
    const show = () => {
      this.salon.goTo(room.topic);
      this.salon.open({ panel: 'asks' });
    };
    if (visit !== this.salon.visit) this.salon.say(`${who} asks you something in ${roomName(room.topic)}.`, 'info', undefined, show);
    if (document.hidden) this.notify(`${who} asks you something in ${roomName(room.topic)}`, clip(newest.text, MAX_BODY), newest.envelope, show);
  }

  /** @param {string} title @param {string} body @param {string} tag the same for what is told by several tabs @param {() => void} show */
  notify(title, body, tag, show) {
    if (!areNotificationsOn()) return;
    const notification = new Notification(title, { body, tag });
    notification.onclick = () => {
      window.focus();
      show();
      notification.close();
    };
  }
}
