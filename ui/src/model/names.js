// Names that strangers choose: what is left of them for showing, and what each could be mistaken for. Pure.

/** The longest name that is shown. */
const MOST = 100;

/** What cannot be seen, or turns around what stands beside it. */
const UNSEEN = /[\p{Cf}\p{Cc}\p{Co}\p{Cs}\p{Default_Ignorable_Code_Point}\u2800]/gu;

/** A name without what cannot be seen and on one line; of a letter's marks, two are kept. @param {string} name */
export function clean(name) {
  const plain = name.slice(0, 4 * MOST).replace(/[\s\u2028\u2029]+/gu, ' ').replace(UNSEEN, '')
    .replace(/(\p{M}{2})\p{M}+/gu, '$1').replace(/ {2,}/g, ' ').trim();
  return plain.length > MOST ? `${[...plain].slice(0, MOST - 1).join('')}…` : plain;
}

/** Letters of other alphabets, and digits, beside the Latin ones that they look like. */
const LOOKS = new Map(Object.entries({
  a: 'аαɑ@4', b: 'ьв8', c: 'сϲ', d: 'ԁ', e: 'еєҽε3', g: 'ɡ', h: 'һнη', j: 'јϳ', k: 'кκ', l: 'iı1|ӏіїι!',
  m: 'мμ', n: 'пո', o: 'оοσ0օө', p: 'рρ', q: 'ԛ', r: 'гꭇ', s: 'ѕ5$ꜱ', t: 'тτ', u: 'υսц', v: 'νѵ', w: 'ԝшω', x: 'хχ', y: 'уүγ', z: 'ʐ2',
}).flatMap(([as, letters]) => [...letters].map((letter) => [letter, as])));

/**
 * The same text for two names that a reader could mistake for each other: case, marks, spaces, punctuation and letters that look
 * alike are no difference. Alike names that are not meant so cost no more than an id that is shown beside them.
 * @param {string} name
 */
export function likeness(name) {
  const letters = clean(name).normalize('NFKD').toLowerCase().replace(/[\p{M}\p{Z}\p{Pc}\p{Pd}._:~'"’]/gu, '');
  return [...letters].map((letter) => LOOKS.get(letter) ?? letter).join('').replaceAll('rn', 'm').replaceAll('vv', 'w');
}

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** A name for the middle of a sentence, which keeps its direction to itself. Where there are elements, `<bdi>` does that. @param {string} name */
export function isolated(name) {
  return RIGHT_TO_LEFT.test(name) ? `\u2068${name}\u2069` : name;
}
