// A part of a drawing, put into its parent.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

export const make = (parent, kind, attributes, text) => {
  const made = document.createElementNS(SVG, kind);
  for (const [key, value] of Object.entries(attributes ?? {})) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
};
