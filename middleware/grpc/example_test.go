package grpclimit_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"github.com/fastlimit/fastlimit"
	grpclimit "github.com/fastlimit/fastlimit/middleware/grpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

func Example() {
	lim, err := fastlimit.New(fastlimit.Config{Rules: []fastlimit.RuleConfig{{
		Name: "per-ip", Rate: fastlimit.Rate{N: 1, Per: time.Minute}, Burst: 2, Strict: true,
	}}})
	if err != nil {
		log.Fatal(err)
	}
	perIP, _ := lim.Rule("per-ip")
	limited, err := grpclimit.New(grpclimit.Config{Limits: []grpclimit.Limit{{Rule: perIP}}})
	if err != nil {
		log.Fatal(err)
	}
	srv := grpc.NewServer(grpc.UnaryInterceptor(limited.Unary), grpc.StreamInterceptor(limited.Stream))
	healthpb.RegisterHealthServer(srv, health.NewServer())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go srv.Serve(ln)
	defer srv.Stop()

	conn, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	for range 3 {
		_, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
}
