// One pass over a Chrome trace ("traceEvents": [...]) that fills typed columns.
//
// The contract, shared with the pure-Python twin in readers/kineto_scan.py:
//   feed(bytes)    any cut of the decompressed file; may be called with pieces of any size
//   finish()       no more bytes; decides whether the file was cut off
//   take()         columns of the complete ("ph":"X") events seen since the last take, then forgets them;
//                  a column without any value is empty, except start_ns
//   texts(from)    interned strings from a code on: raw text between the quotes
//   jsons()        interned raw JSON values
//   header()       other top-level members, raw JSON by key
//   stats()        events seen, events skipped, where and why
//
// It is lenient on purpose, because profilers write broken JSON: control characters and invalid UTF-8
// inside strings, inf and nan, numbers in quotes, trailing commas. An event it cannot parse is counted
// and skipped by looking for the start of the next one. What it buffers is bounded: one event or one
// header member of a few MiB.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SOLSCOPE_LITTLE_ENDIAN 1
#else
#define SOLSCOPE_LITTLE_ENDIAN 0
#endif

namespace {

constexpr int64_t kNull = INT64_MIN;
constexpr uint32_t kNone = UINT32_MAX;
constexpr int64_t kMaxTimeNs = 4'000'000'000'000'000'000;  // start + duration still fits int64
constexpr int64_t kMaxDurNs = 100'000'000'000'000;         // 27 hours: longer is a damaged number
constexpr size_t kMaxEventBytes = 8u << 20;
constexpr size_t kMaxHeaderBytes = 4u << 20;
constexpr size_t kDamageKept = 16;

enum class Status { kOk, kMore, kBad };

// ---- interning ---------------------------------------------------------------------------------

class Interner {
   public:
    // A seed of its own for each table: names that collide cannot be prepared beforehand.
    Interner() : slots_(1024), seed_(std::random_device{}() * 0x9E3779B97F4A7C15ull) {}

    uint32_t add(const char* text, size_t size) {
        const uint64_t hash = mix(text, size);
        const uint32_t tag = static_cast<uint32_t>(hash >> 32);
        size_t at = hash & (slots_.size() - 1);
        for (; slots_[at].code != kNone; at = (at + 1) & (slots_.size() - 1)) {
            if (slots_[at].tag != tag) continue;
            const Entry& e = entries_[slots_[at].code];
            if (e.size == size && !memcmp(arena_.data() + e.offset, text, size)) return slots_[at].code;
        }
        const uint32_t code = static_cast<uint32_t>(entries_.size());
        entries_.push_back({hash, arena_.size(), size});
        arena_.append(text, size);
        slots_[at] = {code, tag};
        if (entries_.size() * 2 > slots_.size()) grow();
        return code;
    }

    PyObject* list(size_t from = 0) const {
        from = from < entries_.size() ? from : entries_.size();
        PyObject* out = PyList_New(static_cast<Py_ssize_t>(entries_.size() - from));
        if (!out) return nullptr;
        for (size_t i = from; i < entries_.size(); ++i) {
            PyObject* item = PyBytes_FromStringAndSize(arena_.data() + entries_[i].offset,
                                                       static_cast<Py_ssize_t>(entries_[i].size));
            if (!item) {
                Py_DECREF(out);
                return nullptr;
            }
            PyList_SET_ITEM(out, static_cast<Py_ssize_t>(i - from), item);
        }
        return out;
    }

   private:
    struct Entry {
        uint64_t hash;
        size_t offset;
        size_t size;
    };

    // Half of the hash beside the code: most other texts are told apart without looking at them.
    struct Slot {
        uint32_t code = kNone;
        uint32_t tag = 0;
    };

    template <typename T>
    static uint64_t word(const char* p) {
        T w;
        memcpy(&w, p, sizeof w);
        return w;
    }

    // The product of two words, folded, so that every bit of both changes all of it.
    static uint64_t fold(uint64_t a, uint64_t b) {
        const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
        return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    }

    // Sixteen bytes a step; the last step may take bytes that the one before it has taken.
    uint64_t mix(const char* p, size_t n) const {
        constexpr uint64_t kOdd = 0xff51afd7ed558ccdull;
        const uint64_t key = seed_ ^ kOdd;
        uint64_t h = seed_ ^ n, a = 0, b = 0;
        if (n >= 16) {
            const char* last = p + n - 16;
            for (; p < last; p += 16) h = fold(word<uint64_t>(p) ^ key, word<uint64_t>(p + 8) ^ h);
            a = word<uint64_t>(last);
            b = word<uint64_t>(last + 8);
        } else if (n >= 8) {
            a = word<uint64_t>(p);
            b = word<uint64_t>(p + n - 8);
        } else if (n >= 4) {
            a = word<uint32_t>(p);
            b = word<uint32_t>(p + n - 4);
        } else if (n > 0) {
            a = word<uint8_t>(p) << 16 | word<uint8_t>(p + n / 2) << 8 | word<uint8_t>(p + n - 1);
        }
        return fold(fold(a ^ key, b ^ h), kOdd);
    }

    void grow() {
        std::vector<Slot> bigger(slots_.size() * 2);
        for (uint32_t code = 0; code < entries_.size(); ++code) {
            size_t at = entries_[code].hash & (bigger.size() - 1);
            while (bigger[at].code != kNone) at = (at + 1) & (bigger.size() - 1);
            bigger[at] = {code, static_cast<uint32_t>(entries_[code].hash >> 32)};
        }
        slots_.swap(bigger);
    }

    std::vector<Slot> slots_;
    uint64_t seed_;
    std::vector<Entry> entries_;
    std::string arena_;
};

// ---- JSON pieces -------------------------------------------------------------------------------

struct Span {
    const char* data = nullptr;
    size_t size = 0;
    bool is(const char* text) const { return size == strlen(text) && !memcmp(data, text, size); }
};

inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

inline const char* skip_space(const char* p, const char* end) {
    while (p < end && is_space(*p)) ++p;
    return p;
}

// Zeros behind the end of the scanner's buffer. They are neither space nor digit nor quote, so that
// loops over such characters stop there, and words can be read across the end.
constexpr size_t kPadding = 64;

inline const char* next_token(const char* p) {
    while (static_cast<unsigned char>(*p) <= ' ' && is_space(*p)) ++p;
    return p;
}

inline uint64_t eight_bytes(const char* p) {
    uint64_t bytes;
    memcpy(&bytes, p, 8);
    return bytes;
}

// The first quote from p on, or null. Keys and values of a trace are short: their bytes are compared
// here, several at a time, and only a long text is worth a call of memchr.
inline const char* find_quote(const char* p, const char* end) {
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"');
    for (int step = 0; step < 4; ++step, p += 16) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
        if (const int quotes = _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, quote)))
            return p + __builtin_ctz(static_cast<unsigned>(quotes));
        if (p >= end) return nullptr;
    }
#elif SOLSCOPE_LITTLE_ENDIAN
    constexpr uint64_t kOnes = 0x0101010101010101ull, kHigh = 0x8080808080808080ull;
    for (int step = 0; step < 4; ++step, p += 8) {
        const uint64_t bytes = eight_bytes(p) ^ kOnes * '"';
        // The lowest bit that is set marks the first quote; those above it may be wrong.
        if (const uint64_t quotes = (bytes - kOnes) & ~bytes & kHigh)
            return p + (__builtin_ctzll(quotes) >> 3);
        if (p >= end) return nullptr;
    }
#endif
    if (p >= end) return nullptr;
    return static_cast<const char*>(memchr(p, '"', static_cast<size_t>(end - p)));
}

// p at the opening quote; on success p is behind the closing one and `out` is the raw text between.
inline Status read_string(const char*& p, const char* end, Span& out) {
    const char* start = p + 1;
    const char* q = start;
    for (;;) {
        q = find_quote(q, end);
        if (!q) return Status::kMore;
        const char* b = q;
        while (b > start && b[-1] == '\\') --b;
        if (((q - b) & 1) == 0) break;
        ++q;
    }
    out = {start, static_cast<size_t>(q - start)};
    p = q + 1;
    return Status::kOk;
}

// What a character means inside a value that is neither text, object nor array, and inside an object
// or array, outside texts. A zero is one more character, unless it is the end of the buffer.
enum class Mark : uint8_t { kInside, kEnd, kBad, kZero };
enum class Bracket : uint8_t { kNone, kQuote, kOpen, kClose, kZero };

template <typename T>
struct Table {
    T of[256] = {};
    constexpr T operator[](char c) const { return of[static_cast<unsigned char>(c)]; }
    constexpr void set(const char* characters, T meaning) {
        for (; *characters; ++characters) of[static_cast<unsigned char>(*characters)] = meaning;
    }
};

constexpr Table<Mark> marks() {
    Table<Mark> table;
    table.set(",}] \n\r\t", Mark::kEnd);
    table.set("\"{[:", Mark::kBad);
    table.of[0] = Mark::kZero;
    return table;
}

constexpr Table<Bracket> brackets() {
    Table<Bracket> table;
    table.set("\"", Bracket::kQuote);
    table.set("{[", Bracket::kOpen);
    table.set("}]", Bracket::kClose);
    table.of[0] = Bracket::kZero;
    return table;
}

constexpr Table<Mark> kMarks = marks();
constexpr Table<Bracket> kBrackets = brackets();

// p at the first character of any value; on success p is behind it.
Status skip_value(const char*& p, const char* end) {
    if (p >= end) return Status::kMore;
    Span ignored;
    if (*p == '"') return read_string(p, end, ignored);
    if (*p != '{' && *p != '[') {
        const char* start = p;
        Mark mark;
        while ((mark = kMarks[*p]) == Mark::kInside || (mark == Mark::kZero && p < end)) ++p;
        if (mark == Mark::kZero) return Status::kMore;
        return mark == Mark::kBad || p == start ? Status::kBad : Status::kOk;
    }
    for (int depth = 0;; ++p) {
        Bracket bracket;
        while ((bracket = kBrackets[*p]) == Bracket::kNone) ++p;
        if (bracket == Bracket::kOpen) {
            ++depth;
        } else if (bracket == Bracket::kClose) {
            if (--depth == 0) break;
        } else if (bracket == Bracket::kQuote) {
            const Status s = read_string(p, end, ignored);
            if (s != Status::kOk) return s;
            --p;
        } else if (p >= end) {
            return Status::kMore;
        }
    }
    ++p;
    return Status::kOk;
}

// A number, or a number in quotes, in units of 1/10^scale_digits, rounded half away from zero. Null for
// anything else, inf and nan among it; `wild` for a number that does not fit.
struct Number {
    int64_t value = kNull;
    bool wild = false;
};

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

// p at an exponent, or not: its value, cut off far beyond what any number here can have.
int read_exponent(const char*& p, const char* end) {
    if (p >= end || (*p != 'e' && *p != 'E')) return 0;
    const char* q = p + 1;
    const bool negative = q < end && *q == '-';
    if (q < end && (*q == '-' || *q == '+')) ++q;
    if (q >= end || !is_digit(*q)) return 0;
    int value = 0;
    for (; q < end && is_digit(*q); ++q) value = std::min(value * 10 + (*q - '0'), 9999);
    p = q;
    return negative ? -value : value;
}

// Append the digits at p to `number`, modulo 2^64; returns the end of the digits.
inline const char* read_digits(const char* p, uint64_t& number) {
#if SOLSCOPE_LITTLE_ENDIAN
    constexpr uint64_t kTens[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    constexpr uint64_t kHigh = 0x8080808080808080ull;
    for (;;) {
        // Bytes that are digits become 0 to 9; of all others, the first has its highest bit in `others`.
        uint64_t bytes = eight_bytes(p) ^ 0x3030303030303030ull;
        const uint64_t others = ((bytes + 0x7676767676767676ull) | bytes) & kHigh;
        const int count = others ? __builtin_ctzll(others) >> 3 : 8;
        if (count == 0) return p;
        // Zeros before the digits. Then neighbors are joined to pairs, pairs to fours, fours to eight.
        bytes <<= 64 - 8 * count;
        bytes = (bytes & 0x0F0F0F0F0F0F0F0Full) * (1 + (10 << 8)) >> 8;
        bytes = (bytes & 0x00FF00FF00FF00FFull) * (1 + (100 << 16)) >> 16;
        bytes = (bytes & 0x0000FFFF0000FFFFull) * (1 + (10000ull << 32)) >> 32;
        number = number * kTens[count] + bytes;
        p += count;
        if (count < 8) return p;
    }
#else
    for (; is_digit(*p); ++p) number = number * 10 + static_cast<uint64_t>(*p - '0');
    return p;
#endif
}

// A value as it stands in the file. A plain number is read on the way: digits that fit 64 bits, perhaps
// with a minus before them and a point among them, which `fraction` of them follow.
struct Value : Span {
    bool plain = false;
    int fraction = 0;
    int64_t digits = 0;
};

// p at the first character of a plain number; false, and p unmoved, when it is anything else.
inline bool read_plain(const char*& p, Value& out) {
    constexpr std::ptrdiff_t kFits = 19;
    const bool negative = *p == '-';
    const char* const first = p + negative;
    uint64_t whole = 0;
    const char* q = read_digits(first, whole);
    std::ptrdiff_t count = q - first, fraction = 0;
    if (count == 0) return false;
    if (*q == '.') {
        const char* const point = q + 1;
        q = read_digits(point, whole);
        fraction = q - point;
        count += fraction;
    }
    if (count > kFits || whole > INT64_MAX || kMarks[*q] != Mark::kEnd) return false;
    out.fraction = static_cast<int>(fraction);
    out.digits = negative ? -static_cast<int64_t>(whole) : static_cast<int64_t>(whole);
    p = q;
    return true;
}

// p at the first character of any value; on success p is behind it.
inline Status read_value(const char*& p, const char* end, Value& out) {
    const char* const start = p;
    out.plain = false;
    Status s = Status::kOk;
    Span ignored;
    if (*p == '"') s = read_string(p, end, ignored);
    else if (!(out.plain = read_plain(p, out))) s = skip_value(p, end);
    if (s != Status::kOk) return s;
    out.data = start;
    out.size = static_cast<size_t>(p - start);
    return Status::kOk;
}

Number parse_number(Span text, int scale_digits) {
    const char* p = text.data;
    const char* end = p + text.size;
    if (text.size >= 2 && *p == '"') {
        ++p;
        --end;
    }
    p = skip_space(p, end);
    bool negative = false;
    if (p < end && (*p == '-' || *p == '+')) negative = *p++ == '-';
    if (p >= end || !is_digit(*p)) return {};
    unsigned __int128 whole = 0;
    constexpr unsigned __int128 kFull = static_cast<unsigned __int128>(1) << 120;
    int64_t shift = scale_digits;  // the number is whole * 10^shift of the unit wanted
    for (; p < end && is_digit(*p); ++p) {
        if (whole < kFull) whole = whole * 10 + static_cast<unsigned>(*p - '0');
        else ++shift;
    }
    if (p < end && *p == '.') {
        for (++p; p < end && is_digit(*p); ++p) {
            if (whole >= kFull) continue;
            whole = whole * 10 + static_cast<unsigned>(*p - '0');
            --shift;
        }
    }
    shift += read_exponent(p, end);
    if (skip_space(p, end) != end) return {};
    unsigned dropped = 0;
    for (; shift < 0 && (whole || dropped); ++shift) {
        dropped = static_cast<unsigned>(whole % 10);
        whole /= 10;
    }
    if (dropped >= 5) ++whole;
    for (; shift > 0 && whole && whole <= static_cast<unsigned __int128>(INT64_MAX); --shift) whole *= 10;
    if (whole > static_cast<unsigned __int128>(INT64_MAX)) return {kNull, true};
    const int64_t value = static_cast<int64_t>(whole);
    return {negative ? -value : value, false};
}

inline Number parse_number(const Value& value, int scale_digits) {
    constexpr int64_t kTens[] = {1, 10, 100, 1000};
    int64_t scaled;
    if (value.plain && value.fraction <= scale_digits &&
        !__builtin_mul_overflow(value.digits, kTens[scale_digits - value.fraction], &scaled))
        return {scaled, false};
    return parse_number(static_cast<Span>(value), scale_digits);
}

// ---- rows --------------------------------------------------------------------------------------

struct Row {
    uint32_t cat = kNone, name = kNone, pid_text = kNone, tid_text = kNone;
    uint32_t grid = kNone, block = kNone, dims = kNone, types = kNone, strides = kNone,
             concrete = kNone, collective = kNone, group = kNone, group_ranks = kNone,
             launched = kNone;
    int64_t ts = kNull, dur = kNull, pid = kNull, tid = kNull, device = kNull, stream = kNull,
            correlation = kNull, external_id = kNull, graph_id = kNull, graph_node = kNull,
            bytes = kNull, sequence = kNull, peer = kNull;
};

// Arguments of a collective, as they stand in the file.
struct Message {
    Span elements{nullptr, 0}, type{nullptr, 0}, ranks{nullptr, 0}, in_split{nullptr, 0},
        out_split{nullptr, 0};

    bool known() const { return is_number(elements) && is_text(type); }

    static bool is_number(Span value) {
        if (value.size == 0 || value.size > 18) return false;
        for (size_t i = 0; i < value.size; ++i)
            if (value.data[i] < '0' || value.data[i] > '9') return false;
        return value.size == 1 || value.data[0] != '0';
    }

    static bool is_text(Span value) {
        if (value.size < 2 || value.size > 4096 || value.data[0] != '"') return false;
        for (size_t i = 0; i < value.size; ++i)
            if (value.data[i] == '\\') return false;
        return true;
    }

    static std::string text(Span value) {
        return is_text(value) ? std::string(value.data, value.size) : "\"\"";
    }

    static std::string number(Span value) {
        return is_number(value) ? "\"" + std::string(value.data, value.size) + "\"" : "\"\"";
    }
};

struct Field32 {
    const char* name;
    uint32_t Row::* member;
};
struct Field64 {
    const char* name;
    int64_t Row::* member;
};

constexpr Field32 kCodes[] = {
    {"cat", &Row::cat},           {"name", &Row::name},       {"pid_text", &Row::pid_text},
    {"tid_text", &Row::tid_text}, {"grid", &Row::grid},       {"block", &Row::block},
    {"input_dims", &Row::dims},   {"input_types", &Row::types},
    {"input_strides", &Row::strides}, {"concrete_inputs", &Row::concrete},
    {"collective", &Row::collective}, {"process_group", &Row::group},
    {"process_group_ranks", &Row::group_ranks}, {"launched", &Row::launched},
};
constexpr Field64 kNumbers[] = {
    {"start_ns", &Row::ts},       {"dur_ns", &Row::dur},
    {"pid", &Row::pid},           {"tid", &Row::tid},
    {"device", &Row::device},     {"stream", &Row::stream},
    {"correlation", &Row::correlation}, {"external_id", &Row::external_id},
    {"graph_id", &Row::graph_id}, {"graph_node", &Row::graph_node},
    {"bytes", &Row::bytes},       {"sequence", &Row::sequence},
    {"peer", &Row::peer},
};

template <typename T>
struct Column {
    const char* name;
    T Row::* member;
    T absent;
    bool always;            // tells how many rows there are, whatever they hold
    std::vector<T> values;  // empty as long as no row has a value

    // Add a block of rows behind `before` others.
    void add(const Row* block, size_t count, size_t before) {
        if (values.empty() && !always) {
            size_t i = 0;
            while (i < count && block[i].*member == absent) ++i;
            if (i == count) return;
        }
        if (values.empty()) {
            values.reserve(std::max(kBatchRows, before + count));
            values.resize(before, absent);
        }
        values.resize(before + count);
        for (size_t i = 0; i < count; ++i) values[before + i] = block[i].*member;
    }

   private:
    static constexpr size_t kBatchRows = (1u << 17) + (1u << 14);  // what the reader takes at once
};

// Rows become columns a block at a time: a block stays in the processor's cache until it is full.
class Rows {
   public:
    Rows() : block_(kBlock) { clear(); }

    // An empty row to fill; `keep` adds it.
    Row& fresh() { return block_[staged_] = empty_; }

    void keep() {
        if (++staged_ == kBlock) flush();
    }

    size_t size() const { return done_ + staged_; }

    void flush() {
        for (auto& column : codes) column.add(block_.data(), staged_, done_);
        for (auto& column : numbers) column.add(block_.data(), staged_, done_);
        done_ += staged_;
        staged_ = 0;
    }

    void clear() {
        codes.clear();
        numbers.clear();
        for (const Field32& f : kCodes) codes.push_back({f.name, f.member, kNone, false, {}});
        for (const Field64& f : kNumbers)
            numbers.push_back({f.name, f.member, kNull, f.member == &Row::ts, {}});
        done_ = staged_ = 0;
    }

    std::vector<Column<uint32_t>> codes;
    std::vector<Column<int64_t>> numbers;

   private:
    static constexpr size_t kBlock = 512;
    const Row empty_;
    std::vector<Row> block_;
    size_t staged_ = 0, done_ = 0;
};

// ---- the scanner -------------------------------------------------------------------------------

class Scanner {
   public:
    void feed(const char* data, size_t size) {
        if (state_ == State::kDone || state_ == State::kNotTrace) {
            consumed_ += size;
            return;
        }
        buffer_.resize(length_);
        buffer_.erase(0, at_);
        consumed_ += at_;
        at_ = 0;
        buffer_.append(data, size);
        length_ = buffer_.size();
        buffer_.append(kPadding, '\0');
        run(false);
    }

    void finish() {
        if (finished_) return;
        finished_ = true;
        run(true);
        if (state_ != State::kDone && state_ != State::kNotTrace && truncated_at_ < 0)
            truncated_at_ = static_cast<int64_t>(consumed_ + at_);
        std::string(kPadding, '\0').swap(buffer_);
        length_ = 0;
    }

    Rows rows;
    Interner texts, jsons;
    std::vector<std::pair<std::string, std::string>> header;
    int64_t events = 0, phased = 0, damaged = 0, wild = 0, absent_dur = 0, negative_dur = 0;
    std::vector<std::pair<int64_t, std::string>> damage;

    bool saw_events() const { return saw_events_; }
    bool not_trace() const { return state_ == State::kNotTrace; }
    int64_t truncated_at() const { return truncated_at_; }

   private:
    enum class State { kStart, kMembers, kEvents, kSkip, kDone, kNotTrace };

    void run(bool final) {
        for (;;) {
            const char* p = buffer_.data() + at_;
            const char* end = buffer_.data() + length_;
            bool progress = false;
            switch (state_) {
                case State::kStart: progress = start(p, end); break;
                case State::kMembers: progress = member(p, end, final); break;
                case State::kEvents: progress = event(p, end, final); break;
                case State::kSkip: progress = skip(p, end); break;
                case State::kDone:
                case State::kNotTrace: at_ = length_; return;
            }
            at_ = static_cast<size_t>(p - buffer_.data());
            if (!progress) return;
        }
    }

    bool start(const char*& p, const char* end) {
        static const char kByteOrderMark[] = "\xEF\xBB\xBF";
        if (consumed_ + at_ == 0 && p < end) {
            const size_t size = std::min<size_t>(3, static_cast<size_t>(end - p));
            if (!memcmp(p, kByteOrderMark, size)) {
                if (size < 3) return false;
                p += 3;
            }
        }
        p = skip_space(p, end);
        if (p >= end) return false;
        if (*p == '{') {
            state_ = State::kMembers;
        } else if (*p == '[') {
            state_ = State::kEvents;
            bare_ = saw_events_ = true;
        } else {
            state_ = State::kNotTrace;
            return true;
        }
        ++p;
        return true;
    }

    bool member(const char*& p, const char* end, bool final) {
        const char* q = p;
        while (q < end && (is_space(*q) || *q == ',')) ++q;
        if (q >= end) return false;
        if (*q == '}') {
            p = q + 1;
            state_ = State::kDone;
            return true;
        }
        Span key;
        if (*q != '"') return give_up(q, end, p, "a member name was expected");
        if (read_string(q, end, key) != Status::kOk) return oversized(q, end, p, final);
        q = skip_space(q, end);
        if (q >= end) return false;
        if (*q != ':') return give_up(q, end, p, "':' was expected");
        q = skip_space(q + 1, end);
        if (q >= end) return false;
        if (key.is("traceEvents") && *q == '[') {
            state_ = State::kEvents;
            saw_events_ = true;
            p = q + 1;
            return true;
        }
        const char* value = q;
        const Status s = skip_value(q, end);
        if (s == Status::kBad) return give_up(value, end, p, "a value was expected");
        if (s == Status::kMore) {
            if (static_cast<size_t>(end - value) < kMaxHeaderBytes) return false;
            if (*value != '{' && *value != '[' && *value != '"')
                return give_up(value, end, p, "a number does not end");
            // A member too large to keep: pass over it as it streams.
            skip_string_ = *value == '"';
            p = skip_string_ ? value + 1 : value;
            skip_depth_ = 0;
            skip_escape_ = false;
            state_ = State::kSkip;
            return true;
        }
        if (header.size() < 256)
            header.emplace_back(std::string(key.data, key.size),
                                std::string(value, static_cast<size_t>(q - value)));
        p = q;
        return true;
    }

    bool oversized(const char*, const char* end, const char*& p, bool) {
        if (static_cast<size_t>(end - p) > kMaxHeaderBytes)
            return give_up(p, end, p, "a member name does not end");
        return false;
    }

    bool skip(const char*& p, const char* end) {
        for (; p < end; ++p) {
            const char c = *p;
            if (skip_string_) {
                if (skip_escape_) skip_escape_ = false;
                else if (c == '\\') skip_escape_ = true;
                else if (c == '"') {
                    skip_string_ = false;
                    if (skip_depth_ == 0) {
                        ++p;
                        state_ = State::kMembers;
                        return true;
                    }
                }
                continue;
            }
            if (c == '"') skip_string_ = true;
            else if (c == '{' || c == '[') ++skip_depth_;
            else if ((c == '}' || c == ']') && --skip_depth_ == 0) {
                ++p;
                state_ = State::kMembers;
                return true;
            }
        }
        return false;
    }

    bool event(const char*& p, const char* end, bool final) {
        const char* q = p;
        while (q < end && (is_space(*q) || *q == ',')) ++q;
        p = q;
        if (q >= end) return false;
        if (*q == ']') {
            p = q + 1;
            state_ = bare_ ? State::kDone : State::kMembers;
            return true;
        }
        Row& row = rows.fresh();
        bool complete = false;
        row_wild_ = 0;
        const char* stop = q;
        Status s = *q == '{' ? read_event(stop, end, row, complete) : Status::kBad;
        if (s == Status::kMore && static_cast<size_t>(end - q) > kMaxEventBytes) s = Status::kBad;
        if (s == Status::kMore && !final) return false;
        if (s == Status::kOk) {
            ++events;
            if (complete) keep(row);
            p = stop;
            return true;
        }
        return resync(q, end, p, final, s == Status::kMore);
    }

    // The event at q is broken. Go on at the next place that looks like the start of an event.
    bool resync(const char* q, const char* end, const char*& p, bool final, bool ran_out) {
        const char* next = find_event(q + 1, end);
        if (!next && !final) {
            if (static_cast<size_t>(end - q) <= kMaxEventBytes) return false;
            p = end - 256;  // nothing here looks like an event; keep a little for a split match
            wasted_ += kMaxEventBytes;
            return too_damaged(p, end);
        }
        if (!next) {
            truncated_at_ = static_cast<int64_t>(consumed_ + (q - buffer_.data()));
            note(q, ran_out ? "the file ends inside an event" : "unreadable up to the end");
            if (!ran_out) ++damaged;
            p = end;
            return false;
        }
        ++events;
        ++damaged;
        note(q, "an event is not valid JSON");
        if (ran_out) wasted_ += static_cast<size_t>(end - q);
        p = next;
        return too_damaged(p, end) || true;
    }

    // Hostile input can make every event run to the end of the buffer; stop before that is quadratic.
    bool too_damaged(const char*& p, const char* end) {
        if (wasted_ < (256u << 20) + 2 * (consumed_ + length_)) return false;
        truncated_at_ = static_cast<int64_t>(consumed_ + (p - buffer_.data()));
        note(p, "too much of the file is damaged");
        state_ = State::kDone;
        p = end;
        return true;
    }

    static const char* find_event(const char* from, const char* end) {
        static const char* const kKeys[] = {"\"ph\"", "\"name\"", "\"cat\"", "\"ts\"", "\"pid\"",
                                            "\"tid\"", "\"id\"", "\"args\"", "\"dur\""};
        for (const char* q = from; q < end; ++q) {
            q = static_cast<const char*>(memchr(q, '{', static_cast<size_t>(end - q)));
            if (!q) return nullptr;
            const char* b = q;
            while (b > from && is_space(b[-1])) --b;
            if (b <= from || b[-1] != ',') continue;
            --b;
            while (b > from && is_space(b[-1])) --b;
            if (b <= from || b[-1] != '}') continue;
            const char* k = skip_space(q + 1, end);
            for (const char* key : kKeys) {
                const size_t n = strlen(key);
                if (static_cast<size_t>(end - k) >= n && !memcmp(k, key, n)) return q;
            }
        }
        return nullptr;
    }

    bool give_up(const char* q, const char* end, const char*& p, const char* why) {
        note(q, why);
        if (!saw_events_) {
            state_ = State::kNotTrace;
        } else {
            truncated_at_ = static_cast<int64_t>(consumed_ + (q - buffer_.data()));
            state_ = State::kDone;
        }
        p = end;
        return true;
    }

    void note(const char* q, const char* why) {
        if (damage.size() < kDamageKept)
            damage.emplace_back(static_cast<int64_t>(consumed_ + (q - buffer_.data())), why);
    }

    void keep(Row& row) {
        wild += row_wild_;
        if (row.dur == kNull) {
            ++absent_dur;
        } else if (row.dur < 0) {
            ++negative_dur;
            row.dur = 0;
        }
        rows.keep();
    }

    Status read_event(const char*& p, const char* end, Row& row, bool& complete) {
        const char* q = next_token(p + 1);
        bool phase_seen = false, more = *q != '}';
        while (more) {
            Span key;
            Value value;
            Status s = pair(q, end, key);
            if (s != Status::kOk) return s;
            if (key.is("args") && *q == '{') {
                if ((s = read_args(q, end, row)) != Status::kOk) return s;
            } else {
                if ((s = read_value(q, end, value)) != Status::kOk) return s;
                if (key.is("ph")) {
                    phase_seen = true;
                    complete = value.is("\"X\"");
                } else {
                    take_field(key, value, row);
                }
            }
            if ((s = next_pair(q, end, more)) != Status::kOk) return s;
        }
        phased += phase_seen;
        p = q + 1;
        return Status::kOk;
    }

    // q behind a value; on success q is at the next key, or at the end of the object. A comma may
    // stand before that end.
    static Status next_pair(const char*& q, const char* end, bool& more) {
        q = next_token(q);
        if (*q == ',') q = next_token(q + 1);
        else if (*q != '}') return q >= end ? Status::kMore : Status::kBad;
        more = *q != '}';
        return Status::kOk;
    }

    // q at a key; on success `key` is its raw text and q is at the first character of its value.
    static Status pair(const char*& q, const char* end, Span& key) {
        if (*q != '"') return q >= end ? Status::kMore : Status::kBad;
        const Status s = read_string(q, end, key);
        if (s != Status::kOk) return s;
        q = next_token(q);
        if (*q != ':') return q >= end ? Status::kMore : Status::kBad;
        q = next_token(q + 1);
        return q >= end ? Status::kMore : Status::kOk;
    }

    void take_field(Span key, const Value& value, Row& row) {
        switch (key.size) {
            case 2:
                if (key.is("ts")) row.ts = time(value, kMaxTimeNs);
                break;
            case 3:
                if (key.is("dur")) row.dur = time(value, kMaxDurNs);
                else if (key.is("cat")) row.cat = text(value);
                else if (key.is("pid")) identity(value, row.pid, row.pid_text);
                else if (key.is("tid")) identity(value, row.tid, row.tid_text);
                break;
            case 4:
                if (key.is("name")) row.name = text(value);
                break;
            default: break;
        }
    }

    Status read_args(const char*& p, const char* end, Row& row) {
        const char* q = next_token(p + 1);
        Message message;
        for (bool more = *q != '}'; more;) {
            Span key;
            Value value;
            Status s = pair(q, end, key);
            if (s != Status::kOk) return s;
            if ((s = read_value(q, end, value)) != Status::kOk) return s;
            take_arg(key, value, row, message);
            if ((s = next_pair(q, end, more)) != Status::kOk) return s;
        }
        if (row.dims == kNone && message.known()) take_message(message, row);
        p = q + 1;
        return Status::kOk;
    }

    // What was sent stands for the inputs of a collective, in the places where torch records them.
    void take_message(const Message& message, Row& row) {
        const std::string dims = "[[" + std::string(message.elements.data, message.elements.size) + "]]";
        const std::string types = "[" + std::string(message.type.data, message.type.size) + "]";
        const std::string concrete = "[\"\",\"\",\"\",\"\",\"\"," + Message::text(message.in_split) + "," +
                                     Message::text(message.out_split) + ",\"\",\"\"," +
                                     Message::number(message.ranks) + "]";
        row.dims = jsons.add(dims.data(), dims.size());
        if (row.types == kNone) row.types = jsons.add(types.data(), types.size());
        if (row.concrete == kNone) row.concrete = jsons.add(concrete.data(), concrete.size());
    }

    void take_arg(Span key, const Value& value, Row& row, Message& message) {
        switch (key.size) {
            case 3:
                if (key.is("Seq")) row.sequence = integer(value);
                break;
            case 4:
                if (key.is("grid")) row.grid = json(value);
                break;
            case 5:
                if (key.is("block")) row.block = json(value);
                else if (key.is("bytes")) row.bytes = integer(value);
                else if (key.is("dtype")) message.type = value;
                break;
            case 6:
                if (key.is("device")) row.device = integer(value);
                else if (key.is("stream")) row.stream = integer(value);
                else if (key.is("kernel")) row.launched = text(value);
                break;
            case 8:
                if (key.is("graph id")) row.graph_id = integer(value);
                else if (key.is("Dst Rank")) row.peer = integer(value);
                else if (key.is("Src Rank") && row.peer == kNull) row.peer = integer(value);
                break;
            case 10:
                if (key.is("Input Dims") || key.is("Input dims")) row.dims = json(value);
                else if (key.is("Input type") || key.is("Input Type")) row.types = json(value);
                else if (key.is("Group size")) message.ranks = value;
                break;
            case 11:
                if (key.is("correlation")) row.correlation = integer(value);
                else if (key.is("External id") || key.is("external id")) row.external_id = integer(value);
                break;
            case 13:
                if (key.is("Input Strides")) row.strides = json(value);
                else if (key.is("graph node id")) row.graph_node = integer(value);
                else if (key.is("In msg nelems")) message.elements = value;
                else if (key.is("In split size")) message.in_split = value;
                break;
            case 14:
                if (key.is("Out split size")) message.out_split = value;
                break;
            case 15:
                if (key.is("Concrete Inputs")) row.concrete = json(value);
                else if (key.is("Collective name")) row.collective = text(value);
                break;
            case 18:
                if (key.is("Process Group Name")) row.group = text(value);
                break;
            case 19:
                if (key.is("Process Group Ranks")) row.group_ranks = text(value);
                break;
            default: break;
        }
    }

    uint32_t text(Span value) {
        if (value.size < 2 || *value.data != '"') return kNone;
        return texts.add(value.data + 1, value.size - 2);
    }

    uint32_t json(Span value) { return value.is("null") ? kNone : jsons.add(value.data, value.size); }

    int64_t integer(const Value& value) {
        const Number n = parse_number(value, 0);
        if (n.wild) ++row_wild_;
        return n.value;
    }

    int64_t time(const Value& value, int64_t most) {
        Number n = parse_number(value, 3);
        if (n.value != kNull && (n.value > most || n.value < -most)) n = {kNull, true};
        if (n.wild) ++row_wild_;
        return n.value;
    }

    void identity(const Value& value, int64_t& number, uint32_t& label) {
        number = parse_number(value, 0).value;
        if (number == kNull) label = text(value);
    }

    State state_ = State::kStart;
    bool bare_ = false, saw_events_ = false, finished_ = false;
    int skip_depth_ = 0;
    bool skip_string_ = false, skip_escape_ = false;
    std::string buffer_ = std::string(kPadding, '\0');  // the padding follows `length_` bytes of text
    size_t length_ = 0, at_ = 0, consumed_ = 0, wasted_ = 0;
    int64_t row_wild_ = 0;  // counted when the event is kept: one that is cut is read again
    int64_t truncated_at_ = -1;
};

// ---- Python ------------------------------------------------------------------------------------

struct Object {
    PyObject_HEAD
    Scanner* scanner;
};

PyObject* object_new(PyTypeObject* type, PyObject*, PyObject*) {
    Object* self = reinterpret_cast<Object*>(type->tp_alloc(type, 0));
    if (self) self->scanner = new Scanner();
    return reinterpret_cast<PyObject*>(self);
}

void object_dealloc(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    delete reinterpret_cast<Object*>(self)->scanner;
    type->tp_free(self);
    Py_DECREF(type);
}

Scanner& scanner_of(PyObject* self) { return *reinterpret_cast<Object*>(self)->scanner; }

PyObject* object_feed(PyObject* self, PyObject* argument) {
    Py_buffer view;
    if (PyObject_GetBuffer(argument, &view, PyBUF_SIMPLE) != 0) return nullptr;
    bool out_of_memory = false;
    Py_BEGIN_ALLOW_THREADS
    try {
        scanner_of(self).feed(static_cast<const char*>(view.buf), static_cast<size_t>(view.len));
    } catch (const std::exception&) {
        out_of_memory = true;
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&view);
    if (out_of_memory) return PyErr_NoMemory();
    return PyLong_FromSize_t(scanner_of(self).rows.size());
}

PyObject* object_finish(PyObject* self, PyObject*) {
    try {
        scanner_of(self).finish();
    } catch (const std::exception&) {
        return PyErr_NoMemory();
    }
    Py_RETURN_NONE;
}

// A column as Python sees it: a read-only buffer that owns the values.
struct Values {
    PyObject_HEAD
    std::vector<uint32_t> codes;
    std::vector<int64_t> numbers;
};

PyTypeObject* values_type = nullptr;

void values_dealloc(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    reinterpret_cast<Values*>(self)->codes.~vector();
    reinterpret_cast<Values*>(self)->numbers.~vector();
    type->tp_free(self);
    Py_DECREF(type);
}

int values_buffer(PyObject* self, Py_buffer* view, int flags) {
    static char nothing;
    Values* values = reinterpret_cast<Values*>(self);
    void* data = values->codes.empty() ? static_cast<void*>(values->numbers.data()) : values->codes.data();
    const size_t size = values->codes.size() * sizeof(uint32_t) + values->numbers.size() * sizeof(int64_t);
    return PyBuffer_FillInfo(view, self, size ? data : &nothing, static_cast<Py_ssize_t>(size), 1, flags);
}

bool put(PyObject* out, const char* name, std::vector<uint32_t>&& codes, std::vector<int64_t>&& numbers) {
    Values* values = reinterpret_cast<Values*>(values_type->tp_alloc(values_type, 0));
    if (!values) return false;
    new (&values->codes) std::vector<uint32_t>(std::move(codes));
    new (&values->numbers) std::vector<int64_t>(std::move(numbers));
    const bool ok = PyDict_SetItemString(out, name, reinterpret_cast<PyObject*>(values)) == 0;
    Py_DECREF(values);
    return ok;
}

PyObject* object_take(PyObject* self, PyObject*) {
    Rows& rows = scanner_of(self).rows;
    PyObject* out = PyDict_New();
    bool ok = out != nullptr;
    try {
        rows.flush();
        for (auto& column : rows.codes) ok = ok && put(out, column.name, std::move(column.values), {});
        for (auto& column : rows.numbers) ok = ok && put(out, column.name, {}, std::move(column.values));
        rows.clear();
    } catch (const std::exception&) {
        Py_XDECREF(out);
        return PyErr_NoMemory();
    }
    if (ok) return out;
    Py_XDECREF(out);
    return nullptr;
}

PyObject* object_texts(PyObject* self, PyObject* start) {
    const size_t from = PyLong_AsSize_t(start);
    if (PyErr_Occurred()) return nullptr;
    return scanner_of(self).texts.list(from);
}
PyObject* object_jsons(PyObject* self, PyObject*) { return scanner_of(self).jsons.list(); }

PyObject* object_header(PyObject* self, PyObject*) {
    PyObject* out = PyList_New(0);
    if (!out) return nullptr;
    for (const auto& [key, value] : scanner_of(self).header) {
        PyObject* item = Py_BuildValue("(y#y#)", key.data(), static_cast<Py_ssize_t>(key.size()),
                                       value.data(), static_cast<Py_ssize_t>(value.size()));
        if (!item || PyList_Append(out, item) != 0) {
            Py_XDECREF(item);
            Py_DECREF(out);
            return nullptr;
        }
        Py_DECREF(item);
    }
    return out;
}

PyObject* object_stats(PyObject* self, PyObject*) {
    const Scanner& s = scanner_of(self);
    PyObject* damage = PyList_New(0);
    if (!damage) return nullptr;
    for (const auto& [offset, why] : s.damage) {
        PyObject* item = Py_BuildValue("(Ls)", static_cast<long long>(offset), why.c_str());
        if (!item || PyList_Append(damage, item) != 0) {
            Py_XDECREF(item);
            Py_DECREF(damage);
            return nullptr;
        }
        Py_DECREF(item);
    }
    return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:O,s:O,s:N}", "events",
                         static_cast<long long>(s.events), "phased",
                         static_cast<long long>(s.phased), "damaged",
                         static_cast<long long>(s.damaged), "wild", static_cast<long long>(s.wild),
                         "absent_dur", static_cast<long long>(s.absent_dur), "negative_dur",
                         static_cast<long long>(s.negative_dur), "truncated_at",
                         static_cast<long long>(s.truncated_at()), "saw_events",
                         s.saw_events() ? Py_True : Py_False, "not_trace",
                         s.not_trace() ? Py_True : Py_False, "damage", damage);
}

PyMethodDef kMethods[] = {
    {"feed", object_feed, METH_O, "Scan the next piece; returns the number of rows held."},
    {"finish", object_finish, METH_NOARGS, "No more pieces will come."},
    {"take", object_take, METH_NOARGS, "Columns of the rows held, as bytes; forgets the rows."},
    {"texts", object_texts, METH_O, "Interned strings from a code on, raw text between the quotes."},
    {"jsons", object_jsons, METH_NOARGS, "Interned raw JSON values."},
    {"header", object_header, METH_NOARGS, "Other top-level members, as (key, raw JSON)."},
    {"stats", object_stats, METH_NOARGS, "Counts of what was seen, skipped and broken."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot kSlots[] = {
    {Py_tp_new, reinterpret_cast<void*>(object_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(object_dealloc)},
    {Py_tp_methods, kMethods},
    {Py_tp_doc, const_cast<char*>("Streaming scanner of one Chrome trace.")},
    {0, nullptr},
};

PyType_Slot kValuesSlots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(values_dealloc)},
    {Py_bf_getbuffer, reinterpret_cast<void*>(values_buffer)},
    {Py_tp_doc, const_cast<char*>("Values of one column, as a read-only buffer.")},
    {0, nullptr},
};

PyType_Spec kValuesSpec = {"solscope._native._scanner.Values", sizeof(Values), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, kValuesSlots};

PyType_Spec kSpec = {"solscope._native._scanner.Scanner", sizeof(Object), 0, Py_TPFLAGS_DEFAULT,
                     kSlots};

PyModuleDef kModule = {PyModuleDef_HEAD_INIT, "_scanner", "Native scanner of Chrome traces.", -1,
                       nullptr, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__scanner() {
    PyObject* module = PyModule_Create(&kModule);
    if (!module) return nullptr;
    values_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kValuesSpec));
    if (!values_type) {
        Py_DECREF(module);
        return nullptr;
    }
    PyObject* type = PyType_FromSpec(&kSpec);
    if (!type || PyModule_AddObject(module, "Scanner", type) != 0) {
        Py_XDECREF(type);
        Py_DECREF(module);
        return nullptr;
    }
    return module;
}
