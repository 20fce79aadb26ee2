package load

import "net/http"

// Counts are answers by status, and requests without one. The zero value is
// empty. Not safe for concurrent use.
type Counts struct {
	status [maxStatus]int64
	total  int64

	// Failed is the number of requests that got no answer: the connection
	// could not be made, broke, or timed out.
	Failed int64
	// Failure is the last reason.
	Failure error
}

func (c *Counts) answered(status int) {
	c.total++
	c.status[status]++
}

func (c *Counts) failed(err error) {
	c.Failed++
	c.Failure = err
}

func (c *Counts) merge(o *Counts) {
	for s, n := range o.status {
		c.status[s] += n
	}
	c.total += o.total
	c.Failed += o.Failed
	if o.Failure != nil {
		c.Failure = o.Failure
	}
}

// Total is the number of answers.
func (c *Counts) Total() int64 { return c.total }

// Status is the number of answers with the status, which is 200 to 599.
func (c *Counts) Status(s int) int64 { return c.status[s] }

// Denied is the number of answers with a status that limiters deny with.
func (c *Counts) Denied() int64 {
	var n int64
	for s := range c.status {
		if Denial(s) {
			n += c.status[s]
		}
	}
	return n
}

// Denial reports whether limiters deny with the status: 429 as they should, 503
// as nginx does by default, 403 as auth_request wants it.
func Denial(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusForbidden:
		return true
	}
	return false
}
