// The libraries that show texts: Markdown, code, differences. Loaded with the first conversation that is opened.
export { default as highlighter } from "./vendor/highlight.js";
export { default as DOMPurify } from "./vendor/dompurify.js";
export { lexer, parser } from "./vendor/marked.js";
export { diffLines } from "./vendor/diff-line.js";
