// The types of what lib.js exports, as far as the page uses them.
export interface VNode {
  type: unknown;
  props: Record<string, unknown>;
  key: unknown;
}
export type Child = VNode | string | number | boolean | null | undefined | Child[];
export interface Signal<T> {
  value: T;
  peek(): T;
  subscribe(fn: (value: T) => void): () => void;
}
export interface ReadonlySignal<T> {
  readonly value: T;
  peek(): T;
  subscribe(fn: (value: T) => void): () => void;
}
export interface Ref<T> {
  current: T;
}
export function html(strings: TemplateStringsArray, ...values: unknown[]): VNode;
export function h(type: unknown, props: Record<string, unknown> | null, ...children: unknown[]): VNode;
export function render(node: Child, parent: Element): void;
export const Fragment: unknown;
export function signal<T>(value: T): Signal<T>;
export function computed<T>(fn: () => T): ReadonlySignal<T>;
export function effect(fn: () => void | (() => void)): () => void;
export function batch<T>(fn: () => T): T;
export function untracked<T>(fn: () => T): T;
export function useState<T>(initial: T | (() => T)): [T, (next: T | ((before: T) => T)) => void];
export function useEffect(fn: () => void | (() => void), inputs?: readonly unknown[]): void;
export function useLayoutEffect(fn: () => void | (() => void), inputs?: readonly unknown[]): void;
export function useMemo<T>(fn: () => T, inputs?: readonly unknown[]): T;
export function useCallback<T>(fn: T, inputs: readonly unknown[]): T;
export function useRef<T>(initial: T | null): Ref<T | null>;
export function useRef<T>(initial: T): Ref<T>;
export function persist<T>(load: () => Promise<T>): Promise<T>;
