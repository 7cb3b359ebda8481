#include "cost_model/base/Format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace shardwright::cost {

namespace {

std::string formatted(const char *format, double value) {
  std::array<char, 64> buffer;
  std::snprintf(buffer.data(), buffer.size(), format, value);
  return buffer.data();
}

/// `value` with four significant digits and no exponent, for 0.1 .. 9999.
std::string fourDigits(double value) {
  if (value >= 1000)
    return formatted("%.0f", value);
  if (value >= 100)
    return formatted("%.1f", value);
  return formatted(value >= 10 ? "%.2f" : "%.3f", value);
}

} // namespace

Table::Table(std::vector<std::string> header, std::vector<Align> aligns)
    : rows{std::move(header)}, aligns(std::move(aligns)) {}

void Table::add(std::vector<std::string> cells) {
  cells.resize(rows.front().size());
  rows.push_back(std::move(cells));
}

std::string Table::text() const {
  const size_t columns = rows.front().size();
  std::vector<size_t> widths(columns, 0);
  for (const auto &row : rows)
    for (size_t i = 0; i < columns; ++i)
      widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto &row : rows) {
    std::string line;
    for (size_t i = 0; i < columns; ++i) {
      Align align = i < aligns.size() ? aligns[i]
                    : i == 0          ? Align::Left
                                      : Align::Right;
      std::string blank(widths[i] - row[i].size(), ' ');
      line += (i == 0 ? "" : "  ") +
              (align == Align::Left ? row[i] + blank : blank + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string bytesText(Bytes amount) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(amount.count());
  size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return (unit == 0 ? std::to_string(amount.count())
                    : formatted("%.2f", value)) +
         " " + units[unit];
}

std::string secondsText(Seconds time) {
  double value = time.count();
  if (value == 0)
    return "0 s";
  if (std::abs(value) >= 1)
    return fourDigits(value) + " s";
  if (std::abs(value) >= 1e-3)
    return fourDigits(value * 1e3) + " ms";
  return formatted("%.3g", value * 1e6) + " us";
}

std::string countText(double count) {
  static const char *const units[] = {"", " K", " M", " B", " T", " P", " E"};
  size_t unit = 0;
  while (std::abs(count) >= 10000 && unit + 1 < std::size(units)) {
    count /= 1000;
    ++unit;
  }
  if (unit == 0 && count == std::floor(count))
    return formatted("%.0f", count);
  return fourDigits(count) + units[unit];
}

std::string siText(double value) {
  static const char *const prefixes[] = {"", "k", "M", "G", "T", "P", "E", "Z"};
  size_t prefix = 0;
  while (std::abs(value) >= 1000 && prefix + 1 < std::size(prefixes)) {
    value /= 1000;
    ++prefix;
  }
  return fourDigits(value) + " " + prefixes[prefix];
}

std::string percentText(double fraction) {
  return formatted("%.1f %%", fraction * 100);
}

std::string groupedText(int64_t count) {
  std::string digits = std::to_string(count);
  size_t first = digits[0] == '-' ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3;) {
    i -= 3;
    digits.insert(i, 1, ',');
  }
  return digits;
}

std::string plural(int64_t count, const std::string &noun) {
  if (count == 1)
    return noun;
  return noun + (noun.back() == 'h' ? "es" : "s");
}

} // namespace shardwright::cost
