package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/fastlimit/fastlimit/bucket/pgstore"
	"github.com/fastlimit/fastlimit/internal/cli"
)

// storeCmd is what is done to a store, once, before nodes use it.
type storeCmd struct {
	Init storeInitCmd `cmd:"" help:"Create the schema that postgres needs, or update an older one."`
}

type storeInitCmd struct {
	Config   string `short:"c" placeholder:"FILE" help:"Configuration file with postgres, or - for stdin."`
	Postgres string `placeholder:"URL" help:"URL of the database, with a user that may create the schema. Default: that in the file."`
	Schema   string `placeholder:"NAME" help:"Name of the schema. Default: that in the file, or fastlimit."`
	Unlogged bool   `help:"Make the table unlogged, which is several times cheaper, but leaves it empty after a crash or a failover."`
	Grant    string `placeholder:"ROLE" help:"Grant this role what a node needs, and nothing else."`
	Print    bool   `help:"Only print the statements, to run them with psql -1."`
}

// Run implements the command.
func (c *storeInitCmd) Run(ctx context.Context, sys *system) error {
	pc, err := c.postgres(sys)
	if err != nil {
		return err
	}
	o := pgstore.SchemaOptions{Unlogged: c.Unlogged, Grant: c.Grant}
	if c.Print {
		_, err := fmt.Fprint(sys.stdout, pc.SchemaSQL(o))
		return err
	}
	return cli.Signalled(ctx, cli.SignalHooks{OnStop: func(os.Signal) {}}, func(ctx context.Context) error {
		if err := pgstore.Init(ctx, pc, o); err != nil {
			return err
		}
		_, err := fmt.Fprintf(sys.stdout, "schema %s has version %d\n", pc.WithDefaults().Schema, pgstore.SchemaVersion)
		return err
	})
}

// postgres is the configuration by file and flags. To print, no server need be named.
func (c *storeInitCmd) postgres(sys *system) (pc pgstore.Config, err error) {
	switch {
	case c.Config != "":
		cfg, err := loadConfig(c.Config, sys)
		if err != nil {
			return pc, err
		}
		if cfg.Postgres == nil {
			return pc, errors.New("the file has no postgres: add it, or name the database with --postgres")
		}
		pc = *cfg.Postgres
	case c.Postgres == "" && c.Print:
		pc.URL = "postgres://localhost/postgres" // nobody connects to it
	case c.Postgres == "":
		return pc, cli.Usagef("want -c FILE, --postgres URL or --print")
	}
	if c.Postgres != "" {
		pc.URL = c.Postgres
	}
	if c.Schema != "" {
		pc.Schema = c.Schema
	}
	if err := pc.Validate(); err != nil { // without the URL, which may hold a password
		return pc, cli.Usage(err)
	}
	return pc, nil
}
