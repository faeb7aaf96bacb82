import { html, useEffect, useLayoutEffect, useRef, useState } from '../../vendor/ui.js';
import { said, useRevision, useSalon, useSlowRevision } from '../app.js';
import { completed, mentionAt, offered } from '../model/mention.js';
import { fullName, nameOf, presentPeople } from '../model/people.js';
import { chatText, GATEWAY, isMarkdown, isOwn } from '../model/envelope.js';
import { clip, count, hueOf } from '../model/text.js';
import { keep, kept } from '../model/kept.js';
import { roomName } from '../model/route.js';
import { muteReason } from '../powers.js';
import { useFiles } from './dropping.js';
import { ClipIcon } from './icons.js';
import { lazy } from './lazy.js';
import { prefer, preference } from './theme.js';
import { Name } from './who.js';

/** @typedef {import('../model/types.js').Person} Person */
/** @typedef {import('../app.js').Salon} Salon */

const TalkAlone = lazy(async () => (await import('./alone.js')).TalkAlone, { quiet: true });

/** To how many a message can be addressed by choosing; others are named in it. */
const MAX_OFFERED = 200;

/** Where the person writes. */
export function Composer() {
  const salon = useSalon();
  const { room, connection } = salon;
  useSlowRevision(room);
  useRevision(connection);
  useRevision(salon);
  const area = useRef(/** @type {HTMLTextAreaElement|null} */ (null));
  const [text, setText] = useState(() => String(kept(`draft.${room.topic}`) ?? ''));
  const [to, setTo] = useState('');
  const [format, setFormat] = useState(() => preference('format', 'markdown'));
  const mention = useMention(area, text, room);
  const isMuted = muteReason(room, salon.session) !== '';
  // Neither the timeline nor a reload loses what is being written.
  useEffect(() => { if (!salon.editing) keep(`draft.${room.topic}`, text || undefined); }, [text]);
  useGrowing(area, text);

  const { editing } = salon;
  // Before it is drawn: a key must not meet the bar without the text.
  useLayoutEffect(() => {
    if (editing) setText(chatText(editing) ?? '');
  }, [editing]);
  const stopEditing = () => {
    salon.edit(null);
    setText('');
  };

  const files = useFiles();
  const isEmpty = text.trim() === '' && files.links.length === 0;

  const send = async () => {
    if (files.isBusy) salon.say('The files are still being uploaded.');
    if (isEmpty || isMuted || files.isBusy) return;
    const about = salon.replyTo;
    if (editing) {
      stopEditing();
      const how = { format: /** @type {any} */ (isMarkdown(editing) ? 'markdown' : 'plain'), to: editing.to };
      await salon.peer.edit(editing.id, text, how).catch((problem) => salon.say(`Not changed: ${said(problem)}`, 'error'));
      return;
    }
    setText('');
    // The next message is to everybody again: who answers somebody once does not answer them for ever.
    setTo('');
    salon.reply(null);
    room.read();
    salon.showEnd();
    try {
      const how = { format: /** @type {any} */ (format), to: to === '' ? [] : [to], correlationId: about?.id, content: files.links };
      files.sent();
      // Who does not know files reads their names.
      await salon.peer.say(text.trim() === '' ? files.names.join(', ') : text, how);
    } catch (problem) {
      // Taken back by the person.
      if (problem instanceof DOMException) return;
      salon.say(`Not sent: ${said(problem)}`, 'error');
      // What was written must not be lost.
      setText((now) => (now === '' ? text : now));
      setTo((now) => (now === '' ? to : now));
    }
  };

  const complete = (/** @type {string} */ id) => {
    const done = completed(text, area.current?.selectionStart ?? text.length, id);
    setText(done.text);
    mention.close();
    requestAnimationFrame(() => area.current?.setSelectionRange(done.cursor, done.cursor));
    area.current?.focus();
  };

  const key = (/** @type {KeyboardEvent} */ event) => {
    // Enter that ends the composition of a character is not meant for us.
    if (event.isComposing) return;
    if (mention.key(event, complete)) return;
    if (event.key === 'Enter' && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      void send();
    } else if (event.key === 'Escape' && salon.replyTo) {
      event.preventDefault();
      event.stopPropagation();
      salon.reply(null);
    } else if (event.key === 'Escape' && editing) {
      event.preventDefault();
      event.stopPropagation();
      stopEditing();
    } else if (event.key === 'ArrowUp' && text === '' && !editing) {
      const last = room.items.findLast((item) => item.type === 'chat' && isOwn(item.envelope, room.me));
      if (last?.type !== 'chat') return;
      event.preventDefault();
      salon.edit(last.envelope);
    }
  };

  const others = presentPeople(room.people).filter((person) => person.id !== room.me && person.id !== GATEWAY).slice(0, MAX_OFFERED);
  return html`
    <form class="composer" aria-label="Write a message" data-drop=${files.isOver ? '' : null} ...${files.handlers} onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); void send(); }}>
      <${Queue} />
      <${ReplyBar} />
      ${editing && html`
        <div class="reply-bar"><span>Editing your message</span><span class="faint clipped">${clip(chatText(editing) ?? '', 160)}</span>
          <button type="button" class="plain" aria-label="Do not change it" title="Do not change it (Esc)" onClick=${stopEditing}>✕</button></div>`}
      ${files.view}
      <div class="composer-box">
        <label class="attach-button" title="Attach files; they can be pasted and dropped as well"><${ClipIcon} /><span class="unseen">Attach files</span>
          <input type="file" multiple class="unseen" disabled=${isMuted} onChange=${files.chosen} /></label>
        ${mention.offers.length > 0 && html`<${Offers} mention=${mention} onChoose=${complete} />`}
        <textarea id="composer" ref=${area} rows="1" value=${text} readonly=${isMuted} aria-disabled=${isMuted ? 'true' : null} placeholder=${`Message ${to === '' ? roomName(room.topic) : nameOf(room.people, to)}`}
          aria-label="Message" aria-autocomplete="list" aria-controls=${mention.offers.length > 0 ? 'mentions' : null}
          aria-activedescendant=${mention.offers.length > 0 ? `mention-${mention.chosen}` : null}
          onInput=${(/** @type {any} */ event) => { setText(event.currentTarget.value); mention.moved(); }}
          onClick=${mention.moved} onKeyUp=${mention.keyUp} onBlur=${mention.close} onKeyDown=${key}></textarea>
        <button type="submit" class="primary" disabled=${isEmpty || isMuted || files.isBusy}>${editing ? 'Save' : 'Send'}</button>
      </div>
      <div class="composer-foot">
        <label>To
          <select value=${to} onChange=${(/** @type {any} */ event) => setTo(event.currentTarget.value)}>
            <option value="">everybody</option>
            ${others.map((person) => html`<option key=${person.id} value=${person.id}>${fullName(room.people, person.id)}</option>`)}
            ${to !== '' && !others.some((person) => person.id === to) && html`<option value=${to}>${to}${room.people.get(to)?.present ? '' : ' (not here)'}</option>`}
          </select>
        </label>
        ${to !== '' && html`<span class="audience" role="status">Addressed to ${nameOf(room.people, to)}, and readable by everybody in the room</span>
          <${TalkAlone} id=${to} />`}
        <label><input type="checkbox" checked=${format === 'markdown'} onChange=${(/** @type {any} */ event) => {
          const next = event.currentTarget.checked ? 'markdown' : 'plain';
          prefer('format', next);
          setFormat(next);
        }} /> Markdown</label>
        <span class="spring"></span>
        <${Waiting} />
        <span class="faint hint">Enter sends, Shift+Enter breaks the line, @ mentions</span>
      </div>
    </form>
  `;
}

function ReplyBar() {
  const salon = useSalon();
  useRevision(salon);
  const { replyTo } = salon;
  if (!replyTo) return null;
  return html`
    <div class="reply-bar">
      <span>Replying to <b class="who" data-hue=${hueOf(replyTo.from)}><${Name} id=${replyTo.from} /></b></span>
      <span class="faint clipped">${clip(chatText(replyTo) ?? replyTo.payload?.method ?? '', 160)}</span>
      <button type="button" class="plain" aria-label="Do not reply" title="Do not reply (Esc)" onClick=${() => salon.reply(null)}>✕</button>
    </div>
  `;
}

/** Messages that the room has not got, with a way to take them back while nothing has been sent. */
function Queue() {
  const { connection } = useSalon();
  useRevision(connection);
  if (connection.state.name === 'live') return null;
  const waiting = connection.unsent();
  if (waiting.length === 0) return null;
  return html`
    <ul class="queue" aria-label="Not sent yet">
      ${waiting.map(({ id, text, isSent }) => html`
        <li key=${id}><span class="badge-word">${isSent ? 'Not confirmed' : 'Not sent yet'}</span> <span class="clipped">${clip(text, 200)}</span>
          ${!isSent && html`<button type="button" class="small" onClick=${() => connection.withdraw(id)}>Take back</button>`}</li>`)}
    </ul>`;
}

/** What has no echo yet. */
function Waiting() {
  const { connection } = useSalon();
  useRevision(connection);
  if (connection.waiting === 0) return null;
  const { name } = connection.state;
  return html`<span class="faint" role="status">${name === 'live' ? 'Sending…'
    : `${count(connection.waiting, 'message waits', 'messages wait')} for the ${name === 'stalled' ? 'gateway' : 'connection'}`}</span>`;
}

/** @param {{mention: Mention, onChoose: (id: string) => void}} props */
function Offers({ mention, onChoose }) {
  return html`
    <ul class="offers" id="mentions" role="listbox" aria-label="Whom to mention">
      ${mention.offers.map((person, at) => html`
        <li key=${person.id} id=${`mention-${at}`} role="option" aria-selected=${at === mention.chosen}
          onMouseDown=${(/** @type {Event} */ event) => { event.preventDefault(); onChoose(person.id); }}>
          <b class="who" data-hue=${hueOf(person.id)}>@${person.id}</b>
          <span class="faint"><bdi>${person.name && person.name !== person.id ? person.name : ''}</bdi> ${person.kind ?? ''}</span>
        </li>`)}
    </ul>
  `;
}

/**
 * @typedef {object} Mention
 * @property {Person[]} offers
 * @property {number} chosen
 * @property {() => void} close
 * @property {() => void} moved the cursor or the text did
 * @property {(event: KeyboardEvent) => void} keyUp
 * @property {(event: KeyboardEvent, complete: (id: string) => void) => boolean} key whether the key was for the offers
 */

/**
 * @param {{current: HTMLTextAreaElement|null}} area @param {string} text @param {import('../model/room.js').RoomModel} room
 * @returns {Mention}
 */
function useMention(area, text, room) {
  const [cursor, setCursor] = useState(-1);
  const [chosen, setChosen] = useState(0);
  const at = cursor < 0 ? null : mentionAt(text, cursor);
  const offers = at ? offered(room.people.values(), at.typed, room.me) : [];
  const close = () => setCursor(-1);
  const moved = () => {
    setCursor(area.current?.selectionStart ?? -1);
    setChosen(0);
  };
  return {
    offers, chosen: Math.min(chosen, offers.length - 1), close, moved,
    keyUp: (event) => {
      if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') moved();
    },
    key: (event, complete) => {
      if (offers.length === 0) return false;
      const now = Math.min(chosen, offers.length - 1);
      if (event.key === 'ArrowDown') setChosen((now + 1) % offers.length);
      else if (event.key === 'ArrowUp') setChosen((now + offers.length - 1) % offers.length);
      else if (event.key === 'Enter' || event.key === 'Tab') complete(offers[now].id);
      else if (event.key === 'Escape') close();
      else return false;
      event.preventDefault();
      event.stopPropagation();
      return true;
    },
  };
}

/** Grows with what is written, up to a third of the window. @param {{current: HTMLTextAreaElement|null}} area @param {string} text */
function useGrowing(area, text) {
  useLayoutEffect(() => {
    const element = area.current;
    if (!element) return;
    element.style.height = 'auto';
    element.style.height = `${Math.min(element.scrollHeight + 2, Math.round(innerHeight / 3))}px`;
  }, [text]);
}
