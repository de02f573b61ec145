// Plays flows over explicit routes in SimGrid, and says when each ended: the other opinion on finish times.
//
//   g++ -O2 -std=c++17 simgrid_peer.cpp -lsimgrid -o simgrid_peer
//   simgrid_peer PLATFORM FLOWS FINISH [--cfg=...]
//
// PLATFORM  "hosts N", then "link BYTES_PER_SECOND SECONDS" (numbered from 0), then "route SRC DST LINK LINK ..."
// FLOWS     "steps", "ring" or "ranks EAGER_BYTES", then "ACTOR STEP SRC DST BYTES START_S", the steps of an actor in order.
//           steps: an actor begins the flows of a step, each not before its start, and waits until all have ended.
//           ranks: an actor for each host does its lines one after another: it sends, receives, or, to itself, waits for
//           START_S. Messages match by mailboxes, one for each two hosts and step. Those of up to EAGER_BYTES are on
//           their way as they are sent, others when both are ready. With a START_S above 0 a message is posted, and a
//           wait of BYTES above 0 is for all that were posted.
//           ring: one flow an actor and step; the actor posts it and its receive, and waits for both.
// FINISH    gets the finish time of each flow, in seconds, as doubles.
// Prints the seconds that building the platform and that the simulation took.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <simgrid/s4u.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace sg = simgrid::s4u;

struct Flow {
  int actor, step, src, dst;
  std::uint64_t bytes;
  double start;
};

static std::vector<sg::Host*> hosts;
static std::vector<Flow> flows;
static std::vector<double> finish;
static std::vector<std::vector<int>> flows_of;  // of each actor

static double seconds_since(std::chrono::steady_clock::time_point begin)
{
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

static void read_platform(const char* path)
{
  std::ifstream file(path);
  std::string line, word;
  auto* zone = sg::create_full_zone("fabric");
  std::vector<sg::Link*> links;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    words >> word;
    if (word == "hosts") {
      int n;
      words >> n;
      for (int i = 0; i < n; i++)
        hosts.push_back(zone->create_host(std::to_string(i), 1e9)->seal());
    } else if (word == "link") {
      double bandwidth, latency;
      words >> bandwidth >> latency;
      auto* link = zone->create_link("l" + std::to_string(links.size()), bandwidth);
      links.push_back(link->set_latency(latency)->seal());
    } else {
      int src, dst, link;
      words >> src >> dst;
      std::vector<sg::LinkInRoute> route;
      while (words >> link)
        route.emplace_back(links[link]);
      zone->add_route(hosts[src]->get_netpoint(), hosts[dst]->get_netpoint(), nullptr, nullptr, route, false);
    }
  }
  zone->seal();
}

static double eager = -1;

static std::string read_flows(const char* path)
{
  FILE* file = fopen(path, "r");
  char mode[16];
  Flow f;
  if (file == nullptr || fscanf(file, "%15s", mode) != 1)
    exit(2);
  if (std::string(mode) == "ranks" && fscanf(file, "%lf", &eager) != 1)
    exit(2);
  while (fscanf(file, "%d %d %d %d %lu %lf", &f.actor, &f.step, &f.src, &f.dst, &f.bytes, &f.start) == 6) {
    if (f.actor >= static_cast<int>(flows_of.size()))
      flows_of.resize(f.actor + 1);
    flows_of[f.actor].push_back(static_cast<int>(flows.size()));
    flows.push_back(f);
  }
  fclose(file);
  finish.resize(flows.size());
  return mode;
}

static sg::Mailbox* mailbox_of(const Flow& f)
{
  return sg::Mailbox::by_name(std::to_string(f.src) + " " + std::to_string(f.dst) + " " + std::to_string(f.step));
}

static void play_rank(int actor)
{
  static int payload;
  int* received;
  std::vector<std::pair<int, sg::CommPtr>> posted;
  for (int i : flows_of[actor]) {
    const Flow& f = flows[i];
    sg::CommPtr comm;
    if (f.src == f.dst && f.bytes > 0) {
      for (auto& [at, pending] : posted) {
        pending->wait();
        finish[at] = pending->get_finish_time();
      }
      posted.clear();
    } else if (f.src == f.dst) {
      sg::this_actor::sleep_for(f.start);
    } else if (f.dst == actor) {
      comm = mailbox_of(f)->get_async<int>(&received);
    } else if (f.bytes <= eager) {
      mailbox_of(f)->put_init(&payload, f.bytes)->detach();
    } else {
      comm = mailbox_of(f)->put_async(&payload, f.bytes);
    }
    if (comm && f.start > 0)
      posted.emplace_back(i, comm);
    else if (comm)
      comm->wait();
    finish[i] = sg::Engine::get_clock();
  }
}

static void play_steps(int actor)
{
  const auto& mine = flows_of[actor];
  std::vector<sg::CommPtr> comms;
  for (std::size_t first = 0; first < mine.size();) {
    std::size_t last = first;
    comms.clear();
    for (; last < mine.size() && flows[mine[last]].step == flows[mine[first]].step; last++) {
      const Flow& f = flows[mine[last]];
      if (f.start > sg::Engine::get_clock())
        sg::this_actor::sleep_until(f.start);
      comms.push_back(sg::Comm::sendto_async(hosts[f.src], hosts[f.dst], f.bytes));
    }
    for (auto& comm : comms)
      comm->wait();
    for (std::size_t i = first; i < last; i++)
      finish[mine[i]] = comms[i - first]->get_finish_time();
    first = last;
  }
}

static void play_ring(int actor)
{
  static int payload;
  int* received;
  auto* from = sg::Mailbox::by_name(std::to_string(flows[flows_of[actor][0]].src));
  for (int i : flows_of[actor]) {
    auto send = sg::Mailbox::by_name(std::to_string(flows[i].dst))->put_async(&payload, flows[i].bytes);
    auto receive = from->get_async<int>(&received);
    send->wait();
    receive->wait();
    finish[i] = send->get_finish_time();
  }
}

int main(int argc, char** argv)
{
  sg::Engine engine(&argc, argv);
  auto begin = std::chrono::steady_clock::now();
  read_platform(argv[1]);
  double build = seconds_since(begin);
  std::string mode = read_flows(argv[2]);
  for (int actor = 0; actor < static_cast<int>(flows_of.size()); actor++) {
    if (flows_of[actor].empty())
      continue;
    auto* host = hosts[mode == "ranks" ? actor : flows[flows_of[actor][0]].src];
    auto started = sg::Actor::create("a", host, [actor, mode] {
      mode == "ranks" ? play_rank(actor) : mode == "ring" ? play_ring(actor) : play_steps(actor);
    });
    for (int i : flows_of[actor])
      if (mode == "ranks" && flows[i].dst == actor && flows[i].bytes <= eager)
        mailbox_of(flows[i])->set_receiver(started);
  }
  begin = std::chrono::steady_clock::now();
  engine.run();
  printf("%.6f %.6f\n", build, seconds_since(begin));
  std::ofstream(argv[3], std::ios::binary)
      .write(reinterpret_cast<const char*>(finish.data()), static_cast<std::streamsize>(finish.size() * sizeof(double)));
}
