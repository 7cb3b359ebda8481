//===- Report.h - Estimates and ledgers as text for people ------*- C++ -*-===//
//
// Aligned tables with units. What scripts read is JSON (tools/shardwright).
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_REPORT_H
#define SHARDWRIGHT_COST_MODEL_REPORT_H

#include "cost_model/Search.h"

#include <string>
#include <vector>

namespace shardwright::cost {

/// A table of text, columns as wide as their widest cell.
class Table {
public:
  enum class Align { Left, Right };
  explicit Table(std::vector<std::string> header, std::vector<Align> aligns = {});
  void add(std::vector<std::string> cells);
  /// Lines end in '\n' and carry no trailing blanks.
  std::string text() const;

private:
  std::vector<std::vector<std::string>> rows;
  std::vector<Align> aligns; ///< missing: first column left, others right
};

std::string bytesText(Bytes amount);       ///< "12.34 GiB", "0 B"
std::string secondsText(Seconds time);     ///< "1.234 s", "12.3 ms", "4.0 us"
std::string countText(double count);       ///< "70.6 B", "1.50 T", "1024"
/// "51.47 G": with an SI prefix and a blank, for a unit to follow.
std::string siText(double value);
std::string percentText(double fraction);  ///< "43.2 %"
/// 1234567 -> "1,234,567".
std::string groupedText(int64_t count);

/// Layers that each stage holds, without embedding and head.
std::vector<int64_t> layersOf(const Program &program, const Plan &plan);
/// Layers of each stage under Recompute::Full.
std::vector<int64_t> fullLayersOf(const Program &program, const Plan &plan);
/// "none", "selective", "full", "full:3" (on 3 layers of a stage), or "mixed".
std::string recomputeText(const Program &program, const Plan &plan);
/// "20", "20+21x2+18": runs of equal stages.
std::string layersText(const std::vector<int64_t> &layers);
/// "8 TP, 4 PP, 2 DP, SP, ZeRO-1, microbatch 1 x 16, 1F1B, recompute none".
std::string planText(const Program &program, const Plan &plan);

/// Bytes of the fullest stage; its index is `stage`.
Bytes fullestStage(const Estimate &estimate, size_t &stage);

/// One line a plan: degrees, time, MFU, tokens, memory. `limit` marks plans
/// that are within 1 % of it ("tight") or do not fit.
std::string plansTable(const Program &program,
                       const std::vector<RankedPlan> &plans, Bytes limit);
/// Parts of the arena and of the framework by stage.
std::string memoryTable(const Estimate &estimate, Bytes limit);
/// Terms of the step time with their shares.
std::string timeTable(const Estimate &estimate);
/// Collectives by phase and axis, and flops.
std::string ledgerTable(const Ledger &ledger);
/// What each rejected mesh lost on; at most `most` lines of the slower ones.
std::string rejectedTable(const SearchResult &result, Bytes limit, size_t most);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_REPORT_H
