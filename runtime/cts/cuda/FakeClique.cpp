//===- FakeClique.cpp - Where members of a fake communicator meet ---------===//
#include "runtime/cts/cuda/FakeClique.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>

#include <unistd.h>

namespace shardwright::runtime::cts {
namespace {

namespace fs = std::filesystem;
using Offers = std::vector<FakeOffer>;

/// Threads of one process.
class ThreadClique : public FakeClique {
public:
  void join(int, int members) override {
    std::lock_guard<std::mutex> lock(mutex);
    size = members;
    ++joined;
  }
  bool isWhole() override {
    std::lock_guard<std::mutex> lock(mutex);
    return joined >= size;
  }
  void handIn(uint64_t call, int rank, FakeOffer offer) override {
    std::lock_guard<std::mutex> lock(mutex);
    Meeting &meeting = meetings[call];
    if (!meeting.offers)
      meeting.offers = std::make_shared<Offers>(static_cast<size_t>(size));
    (*meeting.offers)[static_cast<size_t>(rank)] = std::move(offer);
    ++meeting.arrived;
  }
  std::shared_ptr<const Offers> complete(uint64_t call) override {
    std::lock_guard<std::mutex> lock(mutex);
    const Meeting &meeting = meetings[call];
    return meeting.arrived < size ? nullptr : meeting.offers;
  }
  void leave(uint64_t call, int) override {
    std::lock_guard<std::mutex> lock(mutex);
    if (++meetings[call].left == size)
      meetings.erase(call);
  }
  void fail() override { failed = true; }
  bool hasFailed() override { return failed; }
  // Members share what an abort ends.
  void abort() override { aborted = true; }
  bool isAborted() override { return aborted; }

private:
  struct Meeting {
    std::shared_ptr<Offers> offers;
    int arrived = 0, left = 0;
  };
  std::mutex mutex;
  int size = 0, joined = 0;
  std::map<uint64_t, Meeting> meetings;
  std::atomic<bool> failed = false, aborted = false;
};

/// Processes. An abort of one ends nothing for the others, as with NCCL between
/// machines: they wait until they notice.
class FileClique : public FakeClique {
public:
  FileClique(const fs::path &folder, uint64_t number)
      : folder(folder / std::to_string(number)) {
    fs::create_directories(this->folder);
  }
  void join(int rank, int members) override {
    size = members;
    write("joined." + std::to_string(rank), {});
  }
  bool isWhole() override {
    for (int rank = 0; rank < size; ++rank)
      if (!fs::exists(folder / ("joined." + std::to_string(rank))))
        return false;
    return true;
  }
  void handIn(uint64_t call, int rank, FakeOffer offer) override {
    std::string text = offer.kind + "\n";
    auto add = [&](int peer, const std::vector<char> &bytes) {
      text += std::to_string(peer) + " " + std::to_string(bytes.size()) + "\n";
      text.append(bytes.begin(), bytes.end());
    };
    add(-1, offer.input);
    for (const auto &[peer, bytes] : offer.messages)
      add(peer, bytes);
    write(nameOf(call, rank), text);
  }
  std::shared_ptr<const Offers> complete(uint64_t call) override {
    for (int rank = 0; rank < size; ++rank)
      if (!fs::exists(folder / nameOf(call, rank)))
        return nullptr;
    auto offers = std::make_shared<Offers>();
    for (int rank = 0; rank < size; ++rank)
      offers->push_back(read(nameOf(call, rank)));
    return offers;
  }
  // Others may still read: files stay until the test removes the folder.
  void leave(uint64_t, int) override {}
  void fail() override { write("failed", {}); }
  bool hasFailed() override { return fs::exists(folder / "failed"); }
  void abort() override { aborted = true; }
  bool isAborted() override { return aborted; }

private:
  static std::string nameOf(uint64_t call, int rank) {
    return "call" + std::to_string(call) + "." + std::to_string(rank);
  }
  /// Appears whole or not at all.
  void write(const std::string &name, const std::string &text) {
    const fs::path unfinished = folder / (name + ".of" +
                                          std::to_string(getpid()));
    std::ofstream(unfinished, std::ios::binary) << text;
    fs::rename(unfinished, folder / name);
  }
  FakeOffer read(const std::string &name) {
    std::ifstream file(folder / name, std::ios::binary);
    FakeOffer offer;
    std::getline(file, offer.kind);
    int peer = 0;
    size_t bytes = 0;
    while (file >> peer >> bytes) {
      file.get(); // the end of the line
      std::vector<char> &part = peer < 0 ? offer.input : offer.messages[peer];
      part.resize(bytes);
      file.read(part.data(), static_cast<std::streamsize>(bytes));
    }
    return offer;
  }

  fs::path folder;
  int size = 0;
  std::atomic<bool> aborted = false;
};

} // namespace

uint64_t newFakeClique() {
  static std::atomic<uint64_t> next = 1;
  return static_cast<uint64_t>(getpid()) << 32 | next++;
}

std::shared_ptr<FakeClique> fakeClique(uint64_t number) {
  static std::mutex mutex;
  static std::map<uint64_t, std::shared_ptr<FakeClique>> known;
  std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<FakeClique> &clique = known[number];
  if (!clique) {
    if (const char *folder = std::getenv("FAKE_NCCL_FOLDER"))
      clique = std::make_shared<FileClique>(folder, number);
    else
      clique = std::make_shared<ThreadClique>();
  }
  return clique;
}

} // namespace shardwright::runtime::cts
