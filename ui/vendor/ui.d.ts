// What of Preact and htm the page uses, for the type check.
export type VNode = { type: any; props: any; key: any };
export type Child = VNode | string | number | boolean | null | undefined | Child[];
export type Dispose = void | undefined | (() => void);
export type Context<T> = { Provider: (props: { value: T; children?: any }) => any; Consumer: any };
export function h(type: any, props?: any, ...children: Child[]): VNode;
export function render(vnode: Child, parent: Element): void;
export function createContext<T>(initial: T): Context<T>;
export const Fragment: any;
export class Component<P = {}, S = {}> {
  constructor(props?: P);
  props: P & { children?: any };
  state: S;
  setState(part: Partial<S> | ((state: S, props: P) => Partial<S> | null), done?: () => void): void;
  forceUpdate(done?: () => void): void;
}
export function useState<T>(initial: T | (() => T)): [T, (next: T | ((last: T) => T)) => void];
export function useState<T = undefined>(): [T | undefined, (next: T | undefined | ((last: T | undefined) => T | undefined)) => void];
export function useReducer<S, A>(reducer: (state: S, action: A) => S, initial: S): [S, (action: A) => void];
export function useEffect(effect: () => Dispose, inputs?: readonly unknown[]): void;
export function useLayoutEffect(effect: () => Dispose, inputs?: readonly unknown[]): void;
export function useRef<T>(initial: T): { current: T };
export function useMemo<T>(make: () => T, inputs: readonly unknown[]): T;
export function useCallback<T extends Function>(fn: T, inputs: readonly unknown[]): T;
export function useContext<T>(context: Context<T>): T;
export function useErrorBoundary(onError?: (error: any) => void): [any, () => void];
export function useId(): string;
export function html(strings: TemplateStringsArray, ...values: any[]): any;
