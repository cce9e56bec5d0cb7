export { jsx as jsxDEV } from "../jsx-runtime";
