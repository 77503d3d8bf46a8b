// Functions that shaders declare, each where it is used. One declaration a paragraph.

var<private> infinity_bits: u32 = 0x7f800000u;  // no constant: WGSL refuses constants that are not finite

fn inf() -> f32 { return bitcast<f32>(infinity_bits); }

fn nan() -> f32 { return bitcast<f32>(infinity_bits | 0x400000u); }

fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }

fn is_finite(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) < 0x7f800000u; }

fn max_f32(a: f32, b: f32) -> f32 { return select(select(max(a, b), b, is_nan(b)), a, is_nan(a)); }

fn min_f32(a: f32, b: f32) -> f32 { return select(select(min(a, b), b, is_nan(b)), a, is_nan(a)); }

fn sign_f32(x: f32) -> f32 { return select(sign(x), x, is_nan(x)); }

fn with_sign(size: f32, x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(size) | (bitcast<u32>(x) & 0x80000000u));
}

fn exp_f32(x: f32) -> f32 {  // past these limits it is 0 and infinity
  return select(select(exp(clamp(x, -104.0f, 88.7228317f)), inf(), x > 88.7228317f), x, is_nan(x));
}

fn log_f32(x: f32) -> f32 {  // Cephes, logf
  let tiny = x < 1.17549435e-38f;
  let shifted = bitcast<i32>(select(x, x * 8388608.0f, tiny)) - 0x3f3504f3;
  let f = bitcast<f32>((shifted & 0x7fffff) + 0x3f3504f3) - 1.0f;
  let n = f32(shifted >> 23u) - select(0.0f, 23.0f, tiny);
  let z = f * f;
  var p = fma(7.0376836292e-2f, f, -1.1514610310e-1f);
  p = fma(p, f, 1.1676998740e-1f);
  p = fma(p, f, -1.2420140846e-1f);
  p = fma(p, f, 1.4249322787e-1f);
  p = fma(p, f, -1.6668057665e-1f);
  p = fma(p, f, 2.0000714765e-1f);
  p = fma(p, f, -2.4999993993e-1f);
  p = fma(p, f, 3.3333331174e-1f);
  let y = f + (p * z * f + n * -2.12194440e-4f - z * 0.5f) + n * 0.693359375f;
  let bits = bitcast<u32>(x);
  let below = select(y, nan(), bits > 0x80000000u);
  return select(select(below, -inf(), (bits & 0x7fffffffu) == 0u), x, bits == 0x7f800000u || is_nan(x));
}

fn tanh_f32(x: f32) -> f32 {  // Eigen and XLA, on -9 .. 9
  let c = clamp(x, -9.0f, 9.0f);
  let z = c * c;
  var p = fma(-2.76076847742355e-16f, z, 2.00018790482477e-13f);
  p = fma(p, z, -8.60467152213735e-11f);
  p = fma(p, z, 5.12229709037114e-08f);
  p = fma(p, z, 1.48572235717979e-05f);
  p = fma(p, z, 6.37261928875436e-04f);
  p = fma(p, z, 4.89352455891786e-03f);
  var q = fma(1.19825839466702e-06f, z, 1.18534705686654e-04f);
  q = fma(q, z, 2.26843463243900e-03f);
  q = fma(q, z, 4.89352518554385e-03f);
  return select(clamp(c * (p / q), -1.0f, 1.0f), x, is_nan(x));
}

fn erf_f32(x: f32) -> f32 {  // Eigen and XLA, on -4 .. 4
  let c = clamp(x, -4.0f, 4.0f);
  let z = c * c;
  var p = fma(-2.72614225801306e-10f, z, 2.77068142495902e-08f);
  p = fma(p, z, -2.10102402082508e-06f);
  p = fma(p, z, -5.69250639462346e-05f);
  p = fma(p, z, -7.34990630326855e-04f);
  p = fma(p, z, -2.95459980854025e-03f);
  p = fma(p, z, -1.60960333262415e-02f);
  var q = fma(-1.45660718464996e-05f, z, -2.13374055278905e-04f);
  q = fma(q, z, -1.68282697438203e-03f);
  q = fma(q, z, -7.37332916720468e-03f);
  q = fma(q, z, -1.42647390514189e-02f);
  return select(clamp(c * (p / q), -1.0f, 1.0f), x, is_nan(x));
}

fn sigmoid_f32(x: f32) -> f32 {
  let small = exp_f32(-abs(x));
  return select(small, 1.0f, x >= 0.0f) / (1.0f + small);
}

fn pow_f32(x: f32, by: f32) -> f32 {
  let size = exp_f32(log_f32(abs(x)) * by);
  let half = by * 0.5f;
  let is_whole = floor(by) == by;
  let odd = is_whole && floor(half) != half;
  var y = select(size, with_sign(size, x), odd);
  y = select(y, nan(), x < 0.0f && is_finite(x) && !is_whole && is_finite(by));
  y = select(y, 1.0f, by == 0.0f || x == 1.0f || (abs(x) == 1.0f && !is_finite(by) && !is_nan(by)));
  return select(y, nan(), !(by == 0.0f) && !(x == 1.0f) && (is_nan(x) || is_nan(by)));
}

fn power_of_2(n: i32) -> f32 { return bitcast<f32>(u32(n + 127) << 23u); }

fn remainder(a: f32, b: f32) -> f32 {  // of sizes, finite and b above 0; exact, by long division
  let p = bitcast<u32>(a);
  let q = bitcast<u32>(b);
  let last = i32(max(q >> 23u, 1u));
  let divisor = (q & 0x7fffffu) | select(0x800000u, 0u, (q >> 23u) == 0u);
  var r = (p & 0x7fffffu) | select(0x800000u, 0u, (p >> 23u) == 0u);
  r = r % divisor;
  for (var left = i32(max(p >> 23u, 1u)) - last; left > 0; left -= 8) {
    r = (r << u32(min(left, 8))) % divisor;
  }
  let half = (last - 150) / 2;
  return f32(r) * power_of_2(half) * power_of_2(last - 150 - half);
}

fn mod_f32(a: f32, b: f32) -> f32 {  // with the sign of b
  let is_plain = is_finite(a) && is_finite(b) && !(b == 0.0f);
  let is_large = is_plain && abs(a) >= abs(b);
  let size = select(abs(a), remainder(select(0.0f, abs(a), is_large), select(1.0f, abs(b), is_large)), is_large);
  let r = with_sign(size, a);
  let y = select(with_sign(0.0f, b), select(r, r + b, (a < 0.0f) != (b < 0.0f)), !(r == 0.0f));
  return select(nan(), y, is_plain || (is_finite(a) && !is_nan(b) && !(b == 0.0f)));
}

fn floordiv_f32(a: f32, b: f32) -> f32 {
  let is_far = is_finite(a) && !is_finite(b) && !is_nan(b);
  let below = select(0.0f, -1.0f, (a < 0.0f) != (b < 0.0f) && !(a == 0.0f));
  let y = select(round((a - mod_f32(a, b)) / b), below, is_far);
  return select(y, a / b, b == 0.0f);
}

fn quadrant(x: f32) -> f32 { return round(x * 0.636619747f); }

fn within_quadrant(x: f32) -> f32 {  // Cephes, sinf: of a turn's quarter nearest to x
  let n = quadrant(x);
  return fma(-n, 7.54978995489188216e-8f, fma(-n, 4.837512969970703125e-4f, fma(-n, 1.5703125f, x)));
}

fn sine_of_quadrant(x: f32, n: i32) -> f32 {
  let r = within_quadrant(x);
  let z = r * r;
  let s = fma(fma(fma(-1.9515295891e-4f, z, 8.3321608736e-3f), z, -1.6666654611e-1f) * z, r, r);
  let tail = fma(fma(2.443315711809948e-5f, z, -1.388731625493765e-3f), z, 4.166664568298827e-2f);
  let c = fma(tail * z, z, fma(-0.5f, z, 1.0f));
  let y = select(s, c, (n & 1) == 1);
  return select(nan(), select(y, -y, (n & 2) == 2), is_finite(x));
}

fn sin_f32(x: f32) -> f32 {  // past this limit both are as inexact as the hardware's
  return select(sine_of_quadrant(x, i32(quadrant(x))), sin(x), is_finite(x) && abs(x) > 1e5f);
}

fn cos_f32(x: f32) -> f32 {
  return select(sine_of_quadrant(x, i32(quadrant(x)) + 1), cos(x), is_finite(x) && abs(x) > 1e5f);
}

fn small_asin(x: f32) -> f32 {  // Cephes, asinf: on -0.5 .. 0.5
  let z = x * x;
  var p = fma(4.2163199048e-2f, z, 2.4181311049e-2f);
  p = fma(p, z, 4.5470025998e-2f);
  p = fma(p, z, 7.4953002686e-2f);
  p = fma(p, z, 1.6666752422e-1f);
  return fma(p * z, x, x);
}

fn asin_f32(x: f32) -> f32 {
  let a = abs(x);
  let far = 1.57079637f - 2.0f * small_asin(sqrt(max(0.5f * (1.0f - a), 0.0f)));
  let y = with_sign(select(small_asin(a), far, a > 0.5f), x);
  return select(y, nan(), a > 1.0f || is_nan(x));
}

fn acos_f32(x: f32) -> f32 {
  let far = 2.0f * small_asin(sqrt(max(0.5f * (1.0f - abs(x)), 0.0f)));
  let y = select(1.57079637f - small_asin(x), select(far, 3.14159274f - far, x < 0.0f), abs(x) > 0.5f);
  return select(y, nan(), abs(x) > 1.0f || is_nan(x));
}

fn atan_f32(x: f32) -> f32 {  // Cephes, atanf
  let a = abs(x);
  let far = a > 2.41421366f;
  let middle = !far && a > 0.414213568f;
  let r = select(select(a, (a - 1.0f) / (a + 1.0f), middle), -1.0f / a, far);
  let z = r * r;
  var p = fma(8.05374449538e-2f, z, -1.38776856032e-1f);
  p = fma(p, z, 1.99777106478e-1f);
  p = fma(p, z, -3.33329491539e-1f);
  let base = select(select(0.0f, 0.785398185f, middle), 1.57079637f, far);
  return select(with_sign(base + fma(p * z, r, r), x), x, is_nan(x));
}

fn sinh_f32(x: f32) -> f32 {  // Cephes, sinhf
  let a = abs(x);
  let z = a * a;
  let p = fma(fma(2.03721912945e-4f, z, 8.33028376239e-3f), z, 1.66667160211e-1f);
  let e = exp_f32(a * 0.5f);
  let far = 0.5f * e * e - 0.5f / (e * e);
  return select(with_sign(select(fma(p * z, a, a), far, a > 1.0f), x), x, is_nan(x));
}

fn cosh_f32(x: f32) -> f32 {
  let e = exp_f32(abs(x) * 0.5f);
  return 0.5f * e * e + 0.5f / (e * e);
}

fn asinh_f32(x: f32) -> f32 {  // Cephes, asinhf
  let a = abs(x);
  let z = a * a;
  var p = fma(2.0122003309e-2f, z, -4.2699340972e-2f);
  p = fma(p, z, 7.4847586088e-2f);
  p = fma(p, z, -1.6666288134e-1f);
  let middle = log_f32(a + sqrt(z + 1.0f));
  let far = log_f32(a) + 0.693147182f;
  let y = select(select(fma(p * z, a, a), middle, a >= 0.5f), far, a > 1500.0f);
  return select(with_sign(y, x), x, is_nan(x));
}

fn acosh_f32(x: f32) -> f32 {  // Cephes, acoshf
  let z = x - 1.0f;
  var p = fma(1.7596881071e-3f, z, -7.5272886713e-3f);
  p = fma(p, z, 2.6454905019e-2f);
  p = fma(p, z, -1.1784741703e-1f);
  p = fma(p, z, 1.4142135263f);
  let near = p * sqrt(max(z, 0.0f));
  let middle = log_f32(x + sqrt(max(z * (x + 1.0f), 0.0f)));
  let y = select(select(near, middle, z >= 0.5f), log_f32(x) + 0.693147182f, x > 1500.0f);
  return select(y, nan(), x < 1.0f || is_nan(x));
}

fn atanh_f32(x: f32) -> f32 {  // Cephes, atanhf
  let z = x * x;
  var p = fma(1.81740078349e-1f, z, 8.24370301058e-2f);
  p = fma(p, z, 1.46691431730e-1f);
  p = fma(p, z, 1.99782164500e-1f);
  p = fma(p, z, 3.33337300303e-1f);
  let far = 0.5f * log_f32((1.0f + x) / (1.0f - x));
  let y = select(select(fma(p * z, x, x), far, abs(x) >= 0.5f), with_sign(inf(), x), abs(x) == 1.0f);
  return select(y, nan(), abs(x) > 1.0f || is_nan(x));
}

fn round_float16(x: f32) -> f32 {  // the nearest float16, to even in a tie
  let bits = bitcast<u32>(x);
  let size = bits & 0x7fffffffu;
  let next = (size + 0xfffu + ((size >> 13u) & 1u)) & 0xffffe000u;
  let normal = bitcast<f32>(select(next, 0x7f800000u, next >= 0x47800000u));
  let small = round(bitcast<f32>(size) * 16777216.0f) * 5.96046448e-8f;
  let nearest = select(normal, small, size < 0x38800000u);
  return select(with_sign(nearest, x), x, size >= 0x7f800000u);
}

fn round_bfloat16(x: f32) -> f32 {  // the nearest bfloat16, to even in a tie
  let bits = bitcast<u32>(x);
  let next = (bits + 0x7fffu + ((bits >> 16u) & 1u)) & 0xffff0000u;
  return bitcast<f32>(select(next, bits | 0x400000u, is_nan(x)));
}

fn i32_of_f32(x: f32) -> i32 {  // outside of 32 bits the least integer, as x86 has it
  let outside = (bitcast<u32>(x) & 0x7fffffffu) >= 0x4f000000u;
  return select(i32(select(x, 0.0f, outside)), i32(-2147483648), outside);
}

fn u32_of_f32(x: f32) -> u32 {
  return select(u32(clamp(x, 0.0f, 4294967040.0f)), u32(i32_of_f32(x)), x < 0.0f);
}

fn div_i32(a: i32, b: i32) -> i32 { return select(a / b, 0, b == 0); }

fn div_u32(a: u32, b: u32) -> u32 { return select(a / b, 0u, b == 0u); }

fn floordiv_u32(a: u32, b: u32) -> u32 { return select(a / b, 0u, b == 0u); }

fn floordiv_i32(a: i32, b: i32) -> i32 {
  let q = a / b;
  let down = select(q, q - 1, a % b != 0 && (a < 0) != (b < 0));
  return select(down, 0, b == 0);
}

fn mod_u32(a: u32, b: u32) -> u32 { return select(a % b, 0u, b == 0u); }

fn mod_i32(a: i32, b: i32) -> i32 {
  let r = a % b;
  return select(select(r, r + b, r != 0 && (r < 0) != (b < 0)), 0, b == 0);
}

fn sign_i32(x: i32) -> i32 { return sign(x); }

fn sign_u32(x: u32) -> u32 { return min(x, 1u); }

fn pow_u32(x: u32, by: u32) -> u32 {
  var power = 1u;
  var base = x;
  var left = by;
  while (left != 0u) {
    power = select(power, power * base, (left & 1u) == 1u);
    base = base * base;
    left = left >> 1u;
  }
  return power;
}

fn pow_i32(x: i32, by: i32) -> i32 {
  let inverse = select(select(0, select(1, -1, (by & 1) == 1), x == -1), 1, x == 1);
  return select(i32(pow_u32(u32(x), u32(max(by, 0)))), inverse, by < 0);
}

fn shl_u32(x: u32, by: u32) -> u32 { return select(x << (by & 31u), 0u, by > 31u); }

fn shl_i32(x: i32, by: i32) -> i32 { return select(x << (u32(by) & 31u), 0, u32(by) > 31u); }

fn shr_u32(x: u32, by: u32) -> u32 { return select(x >> (by & 31u), 0u, by > 31u); }

fn shr_i32(x: i32, by: i32) -> i32 { return x >> select(u32(by), 31u, u32(by) > 31u); }
