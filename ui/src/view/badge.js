import { html, useEffect, useState } from '../../vendor/ui.js';
import { fullName } from '../model/people.js';
import { clip, count, listed } from '../model/text.js';
import { useRevision, useSalon, useSlowRevision } from '../app.js';
import { approvalsForMe } from '../powers.js';
import { AskIcon } from './icons.js';

/** How many notes that came together are shown one by one; the others are only counted. */
const MAX_TOLD = 3;

/**
 * How many questions are open, and the way to them. Says so when one comes.
 * @param {{class?: string}} props
 */
export function AskBadge(props) {
  const salon = useSalon();
  const { person, room } = salon;
  useRevision(person);
  useRevision(salon);
  useSlowRevision(room);
  const held = approvalsForMe(room, salon.session);
  const lastHeld = held[held.length - 1];
  useEffect(() => {
    if (!lastHeld || salon.panel?.panel === 'asks') return;
    salon.say(`${fullName(room.people, lastHeld.caller)} wants to call ${clip(lastHeld.tool, 60)}: it needs an approval.`, 'info', 'asks', () => salon.open({ panel: 'asks' }));
  }, [lastHeld?.id]);
  const newest = person.asks[person.asks.length - 1];
  const [told, setTold] = useState({ id: 0, text: '' });
  useEffect(() => {
    if (!newest || newest.id <= told.id) return;
    const text = `${fullName(room.people, newest.from)} asks you something.`;
    // Where the question is in sight already, no message over it is needed.
    const seen = salon.panel?.panel === 'asks' || (salon.panel?.panel === 'peer' && salon.panel.id === newest.from);
    if (!seen) salon.say(text, 'info', 'asks', () => salon.open({ panel: 'asks' }));
    setTold({ id: newest.id, text: seen ? text : '' });
  }, [newest?.id]);
  const note = person.notes[person.notes.length - 1];
  useEffect(() => {
    if (!note) return;
    if (salon.panel?.panel !== 'asks') {
      const unseen = person.notes.filter(({ seen, type }) => !seen && type === 'shown').slice(-MAX_TOLD);
      for (const each of unseen) salon.say(`${fullName(room.people, each.from)} shows you: ${clip(each.text.replace(/\s+/g, ' '), 200)}`, 'info', 'asks');
    }
    person.mark('seen', note.id);
  }, [note?.id]);
  const { unread } = person;
  const open = held.length + person.asks.length + unread;
  const waiting = [held.length > 0 && count(held.length, 'approval'), person.asks.length > 0 && count(person.asks.length, 'question'), unread > 0 && count(unread, 'note')].filter(Boolean);
  const label = waiting.length > 0 ? `${listed(/** @type {string[]} */ (waiting))} for you` : 'Questions for you';
  return html`
    <button type="button" class=${`ask-badge ${props.class ?? ''}`} data-open=${open > 0 ? '' : null} aria-label=${label} title=${label}
      onClick=${() => salon.open({ panel: 'asks' })}>
      <${AskIcon} /><span class="ask-word">For you</span>${open > 0 && html`<span class="badge" data-count=${open > 99 ? '99+' : open}></span>`}
    </button>
    <span class="unseen" role="status">${told.text}</span>`;
}
