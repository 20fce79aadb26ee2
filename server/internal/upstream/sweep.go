package upstream

import "time"

// sweeps is the number of sweeps within Config.KeepAlive.
const sweeps = 8

// sweepLocked starts the sweep with the first connection.
func (p *Pool) sweepLocked() {
	if p.sweeping || p.closed {
		return
	}
	p.sweeping = true
	go func() {
		defer close(p.swept)
		tick := time.NewTicker(max(p.config.KeepAlive/sweeps, time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-p.stop:
				return
			case <-tick.C:
				p.sweep()
			}
		}
	}()
}

// sweep closes connections that have been idle too long. Their age is counted in sweeps, so that returning
// one reads no clock.
func (p *Pool) sweep() {
	p.mu.Lock()
	p.epoch++
	var old *Conn
	for _, s := range p.servers {
		for c := s.idle.oldest; c != nil && p.epoch-c.since >= sweeps; c = s.idle.oldest {
			s.idle.remove(c)
			c.older, old = old, c
		}
	}
	p.mu.Unlock()
	p.endAll(old)
}
