//===- Format.h - Quantities and tables as text for people ------*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_BASE_FORMAT_H
#define SHARDWRIGHT_COST_MODEL_BASE_FORMAT_H

#include "cost_model/Units.h"

#include <cstdint>
#include <string>
#include <vector>

namespace shardwright::cost {

/// A table of text, columns as wide as their widest cell.
class Table {
public:
  enum class Align { Left, Right };
  explicit Table(std::vector<std::string> header,
                 std::vector<Align> aligns = {});
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
/// Of `count` of them: "plan", "plans"; "mesh", "meshes".
std::string plural(int64_t count, const std::string &noun);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_BASE_FORMAT_H
