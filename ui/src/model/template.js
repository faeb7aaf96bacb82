/** Addresses with gaps in them, as resource templates have (RFC 6570): `file:///{path}`, `{+path}`, `{?a,b}`. Pure. */

const EXPRESSION = /\{([+#./;?&]?)([^{}]{1,500})\}/g;

/** How each kind of gap begins, what stands between its parts, whether parts are named, and whether `/` stays as it is. */
const KINDS = /** @type {Record<string, {first: string, between: string, named: boolean, reserved: boolean}>} */ ({
  '': { first: '', between: ',', named: false, reserved: false },
  '+': { first: '', between: ',', named: false, reserved: true },
  '#': { first: '#', between: ',', named: false, reserved: true },
  '.': { first: '.', between: '.', named: false, reserved: false },
  '/': { first: '/', between: '/', named: false, reserved: false },
  ';': { first: ';', between: ';', named: true, reserved: false },
  '?': { first: '?', between: '&', named: true, reserved: false },
  '&': { first: '&', between: '&', named: true, reserved: false },
});

/** @param {string} list */
const namesIn = (list) => list.split(',').map((name) => name.replace(/(\*|:\d+)$/, ''));

/**
 * @param {string} template
 * @returns {string[]} what is to be filled in, each once
 */
export function variablesOf(template) {
  return [...new Set([...template.matchAll(EXPRESSION)].flatMap(([, , list]) => namesIn(list ?? '')))];
}

/**
 * @param {string} template
 * @param {Record<string, unknown>} values texts; what is missing leaves its gap empty
 * @returns {string}
 */
export function expand(template, values) {
  return template.replace(EXPRESSION, (_, sign, list) => {
    const kind = KINDS[sign] ?? KINDS[''];
    if (!kind) return '';
    const parts = namesIn(list).filter((name) => Object.hasOwn(values, name) && values[name] !== '').map((name) => {
      const text = String(values[name]);
      const coded = kind.reserved ? encodeURI(text) : encodeURIComponent(text);
      return kind.named ? `${name}=${coded}` : coded;
    });
    return parts.length > 0 ? kind.first + parts.join(kind.between) : '';
  });
}
