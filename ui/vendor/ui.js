// The one place where the page's views get Preact and htm from.
import { h } from './preact.js';
import htm from './htm.js';

export { h, render, createContext, Fragment, Component } from './preact.js';
export {
  useState, useReducer, useEffect, useLayoutEffect, useRef, useMemo, useCallback, useContext, useErrorBoundary, useId,
} from './hooks.js';

/** Markup in template literals. Values become text or properties, never markup. */
export const html = htm.bind(h);
