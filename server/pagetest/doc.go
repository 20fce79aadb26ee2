// Package pagetest tests the page of the admin listener in Chromium. It is a module of its own, since nothing
// else needs a library that controls a browser.
package pagetest
