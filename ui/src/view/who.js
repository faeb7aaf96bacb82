import { html } from '../../vendor/ui.js';
import { fullName, givenName, isDoubtful } from '../model/people.js';
import { clip, hueOf } from '../model/text.js';
import { useSalon } from '../app.js';

/** How many characters of a name stand in a line. */
const MAX_SHOWN = 60;

/**
 * Somebody's name, with the id beside it where the name could be another's; `always` wherever the two differ, for what one decides by.
 * A name is what its bearer wrote: it keeps its direction to itself.
 * @param {{id: string, always?: boolean}} props
 */
export function Name({ id, always = false }) {
  const { people } = useSalon().room;
  const name = givenName(people, id);
  const shown = always ? fullName(people, id) !== name : isDoubtful(people, id);
  return html`<bdi>${clip(name, MAX_SHOWN)}</bdi>${shown && html`${' '}<code class="who-id">${id}</code>`}`;
}

/** The same as a button that leads to them. @param {{id: string, always?: boolean}} props */
export function Who({ id, always = false }) {
  const salon = useSalon();
  return html`
    <button type="button" class="who" data-hue=${hueOf(id)} title=${id}
      onClick=${() => salon.open({ panel: 'peer', id })}><${Name} id=${id} always=${always} /></button>`;
}
