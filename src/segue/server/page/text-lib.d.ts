// The types of what text-lib.js exports, as far as the page uses them.
export const highlighter: {
  getLanguage(name: string): unknown;
  registerLanguage(name: string, language: unknown): void;
  highlight(text: string, options: { language: string; ignoreIllegals: boolean }): { value: string };
};
export const DOMPurify: {
  addHook(name: string, act: (node: Element) => void): void;
  sanitize(text: string, options: Record<string, unknown>): unknown;
};
export function lexer(text: string): any[] & { links: unknown };
export function parser(tokens: unknown): string;
export function diffLines(before: string, after: string): { value: string; added?: boolean; removed?: boolean }[];
