"""Pure numbers in, pure numbers out: every formula that a verdict rests on, with its source in its docstring.

`intervals` bounds a mean over questions; `paired` reads a table of right and wrong pairs; `ratios` compares speeds;
`clusters` bounds a mean over tokens of many texts; `divergence` compares distributions over the next token.
Nothing here knows what was measured. Bounds are one-sided at level 1 - alpha unless a name says otherwise.
"""
