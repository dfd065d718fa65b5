// Preact's elements by tagged templates. Text in them is text: nothing here makes HTML of it.
import { h } from "preact";
import htm from "htm";

export const html = htm.bind(h);
