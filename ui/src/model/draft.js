/**
 * What a person has put into a form so far, and the value that it makes. A draft is a tree beside the tree of shapes: texts as typed,
 * choices by their number, members and entries by their place (never by name: a stranger's schema names them).
 * Drafts are not changed; `changed` makes a new one. Pure: no DOM.
 */

import { canonical, stringifyExact } from './exact.js';
import { isObject } from './raw.js';
import { MAX_PARTS } from './flatten.js';
import { isLong } from './schema.js';
import { newCost, validate } from './validate.js';

/** @typedef {import('./schema.js').Shape} Shape */
/** @typedef {import('./validate.js').Errors} Errors */
/** @typedef {import('./validate.js').Cost} Cost */

/**
 * @typedef {object} Draft
 * @property {number} id of its own, so that entries of a list keep their place on the screen
 * @property {string} text of `text`, `number`, `json`
 * @property {number} index of the option or variant chosen; NONE where none is
 * @property {boolean[]} picked of `several`
 * @property {boolean} on whether an object is filled in
 * @property {Draft[]} parts members of an object, entries of a list, the one variant of a union
 * @property {string[]} names of the last of an object's parts: members that the schema does not name, but allows
 * @property {[string, unknown][]} extra members that the schema says nothing about
 * @property {boolean} json whether the whole of it is JSON in `text`, because fields for it would be too many
 */

/**
 * What a stranger's schema may bring into a form at once.
 * @typedef {{left: number, chars: number, cost: Cost}} Budget drafts, characters of defaults, and checks to find alternatives that fit
 */

export const NONE = -1;
/** Beside the options, null can be chosen where the schema allows it. */
export const NULL = -2;

/** How many fields are made at once, and how deep those go that nobody asked for. */
const MAX_DRAFTS = 500;
const DEEPEST_UNASKED = 3;
const MAX_CHARS = 200_000;
const LONGEST_SPREAD = 2000;
/** So many options to choose from are as much to draw as a field. */
const OPTIONS_OF_DRAFT = 10;

let ids = 0;

/** @returns {Budget} */
const newBudget = () => ({ left: MAX_DRAFTS, chars: MAX_CHARS, cost: newCost() });

/** Nothing was filled in; not the same as null. */
export const ABSENT = Symbol('absent');

/**
 * @param {Shape} shape
 * @param {unknown} [value] what to begin with; the schema's default without
 * @param {Budget} [budget] shared by all of a form
 * @returns {Draft}
 */
export function draftOf(shape, value = ABSENT, budget = newBudget()) {
  const { required } = shape;
  const begin = value === ABSENT ? defaultOf(shape, budget) : value;
  /** @type {Draft} */
  const draft = { id: (ids += 1), text: '', index: NONE, picked: [], on: false, parts: [], names: [], extra: [], json: false };
  budget.left -= 1 + shape.options.length / OPTIONS_OF_DRAFT;
  if (isTooMuch(shape, begin, budget)) return asJson(draft, begin);
  switch (shape.kind) {
    case 'text':
      if (begin !== ABSENT && begin !== null) draft.text = typeof begin === 'string' ? begin : stringifyExact(begin);
      break;
    case 'number':
      if (begin !== ABSENT && begin !== null) draft.text = stringifyExact(begin);
      break;
    case 'json':
      if (begin !== ABSENT) draft.text = written(begin);
      break;
    case 'boolean':
      draft.index = begin === null && shape.nullable ? NULL : begin === true ? 1 : begin === false || required ? 0 : NONE;
      break;
    case 'choice': {
      const wanted = begin === ABSENT ? undefined : canonical(begin);
      draft.index = shape.options.findIndex((option) => wanted !== undefined && canonical(option.value) === wanted);
      if (draft.index === NONE && begin === null && shape.nullable) draft.index = NULL;
      if (draft.index === NONE && required && shape.options.length === 1) draft.index = 0;
      break;
    }
    case 'several': {
      const wanted = new Set(Array.isArray(begin) ? begin.map(canonical) : []);
      draft.picked = shape.options.map((option) => wanted.has(canonical(option.value)));
      break;
    }
    case 'list':
      if (Array.isArray(begin)) draft.parts = draftsOf(begin.map((item) => ({ shape: shape.item(), value: item })), budget);
      break;
    case 'union':
      return beginUnion(shape, draft, begin, budget);
    case 'object':
      return beginObject(shape, draft, begin, budget);
    default:
  }
  return draft;
}

/** @param {Shape} shape @param {Budget} budget @returns {unknown} */
function defaultOf({ schema }, budget) {
  if (!('default' in schema) || budget.chars < 0) return ABSENT;
  // References can bring one long default to many places. The next ones stay empty: the participant knows its default all the same.
  budget.chars -= typeof schema.default === 'object' ? stringifyExact(schema.default).length : String(schema.default).length;
  return schema.default;
}

/** @param {Shape} shape @param {unknown} begin @param {Budget} budget */
function isTooMuch({ kind, options }, begin, budget) {
  if ((kind === 'list' || kind === 'several') && isLong(begin)) return true;
  const many = kind === 'union' || (kind === 'list' && Array.isArray(begin)) || (kind === 'object' && isObject(begin))
    || options.length > OPTIONS_OF_DRAFT;
  return many && budget.left < 0;
}

/** @param {Draft} draft @param {unknown} value @returns {Draft} */
function asJson(draft, value) {
  return { ...draft, json: true, text: value === ABSENT ? '' : written(value) };
}

/** JSON for a field: over lines where it is short enough to be read. @param {unknown} value */
function written(value) {
  const line = stringifyExact(value);
  return line.length > LONGEST_SPREAD ? line : stringifyExact(value, 2);
}

/**
 * Each gets as much of the budget as the others, so that the first does not take it all.
 * @param {{shape: Shape, value: unknown}[]} places
 * @param {Budget} budget
 * @returns {Draft[]}
 */
function draftsOf(places, budget) {
  const deep = places.filter(({ shape: { kind } }) => kind === 'object' || kind === 'list' || kind === 'union').length;
  const share = Math.floor((budget.left - places.length) / Math.max(1, deep));
  return places.map(({ shape, value }) => {
    const own = { ...budget, left: share };
    const draft = draftOf(shape, value, own);
    budget.left -= share - own.left;
    budget.chars = own.chars;
    return draft;
  });
}

/** @param {Shape} shape @param {Draft} draft @param {unknown} begin @param {Budget} budget @returns {Draft} */
function beginObject(shape, draft, begin, budget) {
  if (isObject(begin)) return shape.members().length > budget.left ? asJson(draft, begin) : filledIn(shape, draft, begin, budget);
  // An optional object is filled in when asked for, and so is one that is deep inside: one that contains itself would have no end.
  const wanted = shape.required && !shape.nullable && begin !== null;
  return wanted && shape.depth <= DEEPEST_UNASKED && shape.members().length <= budget.left ? filledIn(shape, draft, {}, budget) : draft;
}

/**
 * @param {Shape} shape of an object
 * @param {Draft} draft
 * @param {Record<string, unknown>} [value]
 * @param {Budget} [budget]
 * @returns {Draft} with a draft for every member
 */
export function filledIn(shape, draft, value = {}, budget = newBudget()) {
  const members = shape.members();
  const known = new Set(members.map(({ key }) => key));
  const places = members.map(({ key, shape: member }) => ({ shape: member, value: Object.hasOwn(value, key) ? value[key] : ABSENT }));
  const others = Object.entries(value).filter(([key]) => !known.has(key));
  const more = shape.more?.();
  if (!more || others.length > MAX_PARTS) return { ...draft, on: true, parts: draftsOf(places, budget), names: [], extra: others };
  const parts = draftsOf([...places, ...others.map(([, each]) => ({ shape: more, value: each }))], budget);
  return { ...draft, on: true, parts, names: others.map(([key]) => key), extra: [] };
}

/**
 * @param {Shape} shape of an object
 * @param {Draft} draft
 * @returns {Draft} with one member more that the schema does not name
 */
export function withMember(shape, draft) {
  if (!shape.more || draft.names.length >= MAX_PARTS) return draft;
  const more = shape.more();
  const part = draftOf(more);
  // Most are texts: one type less to choose.
  const begun = more.kind === 'union' && part.index === NONE ? withVariant(more, part, 0) : part;
  return { ...draft, parts: [...draft.parts, begun], names: [...draft.names, ''] };
}

/**
 * @param {Shape} shape of an object
 * @param {Draft} draft
 * @param {number} place among those
 * @returns {Draft}
 */
export function withoutMember(shape, draft, place) {
  const at_ = shape.members().length + place;
  return { ...draft, parts: draft.parts.filter((_, index) => index !== at_), names: draft.names.filter((_, index) => index !== place) };
}

/** Where what is wrong with such a member stands: it has no name that could say it. @param {string} pointer @param {number} place */
export function namePointer(pointer, place) {
  return `${pointer}/#name ${place}`;
}

/** @param {Shape} shape @param {Draft} draft @param {unknown} begin @param {Budget} budget @returns {Draft} */
function beginUnion(shape, draft, begin, budget) {
  if (begin === null && shape.nullable) return { ...draft, index: NULL };
  if (begin === ABSENT) {
    const wanted = shape.required && !shape.nullable && shape.depth <= DEEPEST_UNASKED;
    return wanted ? withVariant(shape, draft, 0, ABSENT, budget) : draft;
  }
  const fits = shape.variants().findIndex((variant) => validate(variant.shape.schema, begin, shape.root, '', budget.cost).size === 0);
  return fits < 0 ? draft : withVariant(shape, draft, fits, begin, budget);
}

/**
 * @param {Shape} shape of a union
 * @param {Draft} draft
 * @param {number} index
 * @param {unknown} [value]
 * @param {Budget} [budget]
 * @returns {Draft}
 */
export function withVariant(shape, draft, index, value = ABSENT, budget = newBudget()) {
  const variant = shape.variants()[index];
  return { ...draft, index, parts: variant ? [draftOf(variant.shape, value, budget)] : [] };
}

/**
 * @param {Shape} shape of a list
 * @param {Draft} draft
 * @returns {Draft} with one entry more, unless there are as many as a form can have
 */
export function withEntry(shape, draft) {
  return draft.parts.length >= MAX_PARTS ? draft : { ...draft, parts: [...draft.parts, draftOf(shape.item())] };
}

/**
 * @param {Draft} draft
 * @param {number[]} path places in `parts`
 * @param {(draft: Draft) => Draft} change
 * @returns {Draft}
 */
export function changed(draft, path, change) {
  const [place, ...rest] = path;
  if (place === undefined) return change(draft);
  return { ...draft, parts: draft.parts.map((part, index) => (index === place ? changed(part, rest, change) : part)) };
}
