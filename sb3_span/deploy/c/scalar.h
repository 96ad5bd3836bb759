/* What span_spline.h and span_exp.h ask for, for one number at a time. */

#define Real float
#define Whole int32_t
#define SPAN_INLINE static inline
#define span_fill(value) (value)
#define span_less(a, b, x, y) ((a) < (b) ? (x) : (y))
#define span_whole(x) ((int32_t)(x))
#define span_real(i) ((float)(i))
#define span_upper_half(x) upper_half(x)
#define span_power_of_two(n) power_of_two(n)

/* x without the lower 12 bits of its mantissa */
static inline float upper_half(float x) {
    union { uint32_t bits; float value; } y;
    y.value = x;
    y.bits &= ~(uint32_t)0xfff;
    return y.value;
}

/* 2^n, put together from its bits */
static inline float power_of_two(int32_t n) {
    union { int32_t bits; float value; } y;
    y.bits = (n + 127) * ((int32_t)1 << 23);
    return y.value;
}
