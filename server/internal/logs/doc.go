// Package logs keeps a flood's share of the log small: a line per denied client and second ([Denials]), a
// line per ban ([Bans]), a line per second with bad requests ([Bad]), and a budget for everything else
// ([Budget]). A request counts; a ticker that ends each second writes the lines. Memory is fixed except for
// the text of the lines.
package logs
